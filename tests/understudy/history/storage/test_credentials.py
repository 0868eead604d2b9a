"""Credentials and servers are found by the same variables for event logs and for lakes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from deltalake import DeltaTable, write_deltalake

from tests.understudy.history.storage.azure_server import ACCOUNT, KEY
from tests.understudy.history.storage.buckets import Bucket
from understudy.history.storage import azure, google
from understudy.history.storage.filesystems import store_of, table_options
from understudy.history.storage.paths import StoreFailed, storage_path

AZURE = pytest.mark.parametrize(
    "bucket", [pytest.param("abfs", marks=[pytest.mark.interop, pytest.mark.timeout(900)])], indirect=True
)
URL = "abfs://logs@account.dfs.core.windows.net"


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user without variables of Google and Azure, and without a login."""
    for name in list(os.environ):
        if name.startswith(("AZURE_", "AZURITE_", "GOOGLE_", "CLOUD_STORAGE_", "STORAGE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    store_of.cache_clear()


def a_log_and_a_table_are_written_and_read(bucket: Bucket) -> None:
    store_of.cache_clear()
    path = storage_path(f"{bucket.url}/log")
    path.write_bytes(b"abc")
    assert path.read_bytes() == b"abc"
    table = storage_path(f"{bucket.url}/table")
    write_deltalake(str(table), pa.table({"a": [1]}), storage_options=table_options(table))
    assert DeltaTable(str(table), storage_options=table_options(table)).version() == 0


# ------------------------------------------------------------------ Google


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
def test_google_takes_the_key_file_of_a_service_account(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    file = tmp_path / "key.json"
    description = {
        "type": "service_account",
        "client_email": "understudy@project.iam.gserviceaccount.com",
        "private_key_id": "1",
        "private_key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "token_uri": "https://oauth2.googleapis.com/token",
    }
    file.write_text(json.dumps(description))
    monkeypatch.delenv("CLOUD_STORAGE_EMULATOR_ENDPOINT")
    monkeypatch.setenv("GOOGLE_BASE_URL", bucket.server.url)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    requests, tokens = bucket.server.requests(), bucket.server.tokens()
    a_log_and_a_table_are_written_and_read(bucket)
    assert bucket.server.tokens() - tokens == bucket.server.requests() - requests > 0


@pytest.mark.parametrize("bucket", ["gs"], indirect=True)
def test_an_emulator_of_google_has_two_names(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOUD_STORAGE_EMULATOR_ENDPOINT")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", bucket.server.url.removeprefix("http://"))
    a_log_and_a_table_are_written_and_read(bucket)


@pytest.mark.usefixtures("no_variables")
def test_deltalake_reads_googles_variables_by_itself() -> None:
    assert google.table_options() is None


# ------------------------------------------------------------------ Azure


@AZURE
def test_a_wrong_key_is_an_error_with_the_url(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"another key").decode())
    store_of.cache_clear()
    with pytest.raises(StoreFailed, match=r"\[AuthorizationFailure\] 403|403 Server failed to authenticate") as raised:
        storage_path(f"{bucket.url}/log").exists()
    assert raised.value.filename == bucket.url
    assert "Request" not in str(raised.value)


@AZURE
def test_azure_takes_a_shared_access_signature(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    rights = {"sp": "rwdlacx", "ss": "b", "srt": "sco", "st": "2026-01-01T00:00:00Z", "se": "2099-01-01T00:00:00Z"}
    form = {"spr": "https,http", "sv": "2020-02-10"}
    text = "\n".join([ACCOUNT, *rights.values(), "", *form.values(), ""])
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    token = urlencode({**rights, **form, "sig": signature})
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", token)
    a_log_and_a_table_are_written_and_read(bucket)


@AZURE
def test_the_server_of_azure_may_be_another(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_USE_EMULATOR")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"{bucket.server.url}/{ACCOUNT}")
    a_log_and_a_table_are_written_and_read(bucket)


@AZURE
def test_the_account_may_be_in_a_variable(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    bucket.url = f"abfs://{bucket.name}"
    a_log_and_a_table_are_written_and_read(bucket)


@pytest.mark.parametrize(
    ("variables", "url", "why"),
    [
        ({}, "abfs://logs", "the URL names no account, and AZURE_STORAGE_ACCOUNT_NAME is not set; expected abfs://CON"),
        ({}, "abfs://logs@account.example.org", "account.example.org is no account; expected abfs://CONTAINER@ACCOUNT"),
        (
            {"AZURE_STORAGE_ENDPOINT": "https://other.example.org"}, URL,
            "the server https://other.example.org is not one of account; expected https://account.HOST or https://HOST",
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_variables")
def test_a_url_without_an_account_is_refused(
    variables: dict[str, str], url: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreFailed, match=why) as raised:
        storage_path(f"{url}/runs").exists()
    assert raised.value.filename == url


@pytest.mark.usefixtures("no_variables")
def test_no_credentials_are_an_error_and_not_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's client ends the process if the first request is for a file."""
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "dev")  # asks no other machine
    monkeypatch.setenv("PATH", "")
    program = (
        "from understudy.history.storage.paths import storage_path\n"
        f"try: storage_path('{URL}/log').read_bytes()\n"
        "except OSError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert "Failed to get token from DefaultAzureCredential" in done.stdout, done.stderr
    assert done.stdout.endswith(f"'{URL}'\n")


@pytest.mark.usefixtures("no_variables")
def test_deltalake_takes_the_login_of_az_if_there_is_no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert azure.table_options() is None
    program = tmp_path / "az"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert azure.table_options() is None, "there is no login"
    (tmp_path / ".azure").mkdir()
    (tmp_path / ".azure" / "azureProfile.json").touch()
    assert azure.table_options() == {"AZURE_USE_AZURE_CLI": "true"}
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert azure.table_options() is None
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/account")
    assert azure.table_options() == {"AZURE_ALLOW_HTTP": "true"}
