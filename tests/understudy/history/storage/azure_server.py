"""`AzureServer` is Azurite, Microsoft's emulator of Azure Blob Storage, with faults.

Its accounts have no hierarchical namespace.
"""

from __future__ import annotations

import base64
import os
import sys

from tests.understudy.history.storage.emulators import azurite
from tests.understudy.history.storage.faulty_server import FaultyServer
from tests.understudy.history.storage.front import serve
from understudy.history.storage.filesystems import store_of

ACCOUNT = "understudy"
KEY = base64.b64encode(b"a key of the tests").decode()


class AzureServer(FaultyServer):
    """Answers requests while its block runs."""

    module = "tests.understudy.history.storage.azure_server"

    def __init__(self) -> None:
        self.arguments = tuple(azurite())

    @classmethod
    def environment_at(cls, url: str) -> dict[str, str]:
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": url,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    @classmethod
    def url_of(cls, name: str) -> str:
        return f"abfs://{name}@{ACCOUNT}.dfs.core.windows.net"

    def make(self, name: str) -> None:
        store_of(self.url_of(name)).files.create_dir(name)


# ------------------------------------------------------------------ in the server's process


def _command(program: list[str], port: int) -> list[str]:
    at = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    return [*program, *at, "--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]


if __name__ == "__main__":
    os.environ["AZURITE_ACCOUNTS"] = f"{ACCOUNT}:{KEY}"
    serve(lambda port: _command(sys.argv[1:], port), lambda emulator, request: emulator(request))
