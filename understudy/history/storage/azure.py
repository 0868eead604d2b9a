"""Reaches containers of Azure Blob Storage and Azure Data Lake Storage, and of the emulator Azurite.

Arrow's client and deltalake's read different variables: of an account's key, of a shared access signature, of another
server and of the login of `az`. All of them are read here for both.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from understudy.history.storage.paths import StoreFailed

_HOSTS: Final = ("dfs.core.windows.net", "blob.core.windows.net")
_EXPECTED: Final = "expected abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER"
_KEYS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
_SIGNATURES: Final = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
_ENDPOINTS: Final = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_IDENTITIES: Final = ("AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")
_AZURITE: Final = "http://127.0.0.1:10000"
_AZURITE_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Key of the account that Azurite has if no others are named; it is in Microsoft's documentation."""


def open_container(authority: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of an account, and the path of a container's root in it.

    Args:
        authority: the container and the host of the account, as `CONTAINER@ACCOUNT.dfs.core.windows.net`; or the
            container alone, with the account in `AZURE_STORAGE_ACCOUNT_NAME`.

    Raises:
        StoreFailed: no account is named, or in another form.
        OSError: the account cannot be reached, or refuses.
        pyarrow.ArrowException: there are no credentials.
    """
    container, account = _container_and_account(authority)
    files = pafs.AzureFileSystem(account, **_credentials(), **_server(account))
    # Without credentials, Arrow 26 ends the process when a file is opened; a look for a name raises.
    files.get_file_info(f"{container}/-")
    return files, container


def table_options() -> dict[str, str] | None:
    """Return what deltalake needs besides the variables that it reads."""
    options = {}
    if not _uses_emulator() and (_first(_ENDPOINTS) or "").startswith("http:"):
        options["AZURE_ALLOW_HTTP"] = "true"
    if _uses_login():
        options["AZURE_USE_AZURE_CLI"] = "true"
    return options or None


def _container_and_account(authority: str) -> tuple[str, str]:
    container, at, host = authority.partition("@")
    account, _, domain = host.partition(".") if at else (os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", ""), "", "")
    if not container or not account:
        reason = f"the URL names no account, and AZURE_STORAGE_ACCOUNT_NAME is not set; {_EXPECTED}"
        raise StoreFailed(errno.EINVAL, reason)
    if at and domain not in _HOSTS:
        reason = f"{host} is no account; {_EXPECTED}, and the address of another server in AZURE_STORAGE_ENDPOINT"
        raise StoreFailed(errno.EINVAL, reason)
    return container, account


def _credentials() -> dict[str, str]:
    """Return an account's key or signature; nothing if Azure's own search for credentials is to find some."""
    if key := _first(_KEYS):
        return {"account_key": key}
    if signature := _first(_SIGNATURES):
        return {"sas_token": f"?{signature.lstrip('?')}"}
    return {"account_key": _AZURITE_KEY} if _uses_emulator() else {}


def _server(account: str) -> dict[str, str]:
    """Return the server if it is not Microsoft's public cloud: its name follows the account's, or comes before it."""
    if _uses_emulator():
        endpoint = f"{os.environ.get('AZURITE_BLOB_STORAGE_URL') or _AZURITE}/{account}"
    elif (found := _first(_ENDPOINTS)) is not None:
        endpoint = found
    else:
        return {}
    url = urlsplit(endpoint)
    if url.path.strip("/") == account:
        blob = url.netloc
    elif url.netloc.startswith(f"{account}."):
        blob = url.netloc.removeprefix(account)
    else:
        reason = (
            f"the server {endpoint} is not one of {account}; expected https://{account}.HOST or https://HOST/{account}"
        )
        raise StoreFailed(errno.EINVAL, reason)
    return {
        "blob_storage_authority": blob,
        "dfs_storage_authority": blob.replace(".blob.", ".dfs.", 1),
        "blob_storage_scheme": url.scheme,
        "dfs_storage_scheme": url.scheme,
    }


def _uses_emulator() -> bool:
    return os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true", "on", "yes", "y")


def _uses_login() -> bool:
    """Return whether there is a login of `az`, and nothing that comes before it. Arrow's client looks by itself."""
    if _uses_emulator() or _first((*_KEYS, *_SIGNATURES, *_IDENTITIES)):
        return False
    folder = os.environ.get("AZURE_CONFIG_DIR")
    profile = Path(folder) if folder else Path.home() / ".azure"
    return (profile / "azureProfile.json").is_file() and shutil.which("az") is not None


def _first(names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := os.environ.get(name))), None)
