"""`S3Server` is an S3 server of moto in a process on this machine, which can be slow, busy, or break off its answers.

It is a process, because deltalake holds Python's lock during some requests.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow.fs as pafs
import pytest

from understudy.history.storage.filesystems import store_of
from understudy.history.storage.paths import UrlPath, storage_path

ROOT = Path(__file__).resolve().parents[4]
_FAULTS = "/understudy-faults"
_BUSY = (
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)
_buckets = itertools.count(1)


class S3Server:
    """Answers requests while its block runs."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.understudy.history.storage.s3_server"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the server has not started"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which clients find the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "understudy",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def fault(self, *, busy: int = 0, torn: int = 0, delay_s: float = 0.0) -> None:
        """Set the faults from now on.

        Args:
            busy: this many of each three attempts at the same request are answered with 503.
            torn: this many of each three answers to the same GET end in their middle.
            delay_s: each request waits so long before it is answered.
        """
        self.send(_FAULTS, json.dumps({"busy": busy, "torn": torn, "delay_s": delay_s}).encode())

    def requests(self) -> int:
        """Return the number of requests so far."""
        with urllib.request.urlopen(f"{self.url}{_FAULTS}") as answer:
            return int(answer.read())

    def send(self, path: str, content: bytes) -> None:
        headers = {"Content-Type": "application/octet-stream"}  # or moto takes it for a form
        request = urllib.request.Request(f"{self.url}{path}", content, headers, method="PUT")
        with urllib.request.urlopen(request):
            pass


class Bucket:
    """A bucket of the server.

    Attributes:
        url: its URL.
    """

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.name = f"bucket-{next(_buckets)}"
        self.url = f"s3://{self.name}"
        server.send(f"/{self.name}", b"")

    def put(self, key: str, content: bytes) -> None:
        path = storage_path(f"{self.url}/{key}")
        assert isinstance(path, UrlPath)
        path.write_bytes(content)

    def put_folder(self, folder: Path, key: str) -> None:
        """Put all files at or below a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{key}/{file.relative_to(folder)}", file.read_bytes())

    def objects(self) -> list[str]:
        """Return the keys of all objects, sorted."""
        found = store_of(self.url).files.get_file_info(pafs.FileSelector(self.name, recursive=True))
        return sorted(each.path for each in found if each.type == pafs.FileType.File)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A new bucket, which this process and its children find; the server has no faults before and after."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    store_of.cache_clear()
    yield Bucket(s3_server)
    s3_server.fault()
    store_of.cache_clear()


# ------------------------------------------------------------------ in the server's process


class _Application:
    def __init__(self, answer: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]) -> None:
        self._answer = answer
        self._attempts: Counter[tuple[str, ...]] = Counter()
        self._faults = {"busy": 0, "torn": 0, "delay_s": 0.0}
        self._requests = 0

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = request["REQUEST_METHOD"]
        if request["PATH_INFO"] == _FAULTS:
            return self._control(request, start)
        self._requests += 1
        time.sleep(self._faults["delay_s"])
        same = tuple(str(request.get(name)) for name in ("PATH_INFO", "QUERY_STRING", "HTTP_RANGE"))
        attempt = self._attempts[method, *same] % 3
        self._attempts[method, *same] += 1
        if attempt < self._faults["busy"]:
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_BUSY)))])
            return [] if method == "HEAD" else [_BUSY]
        body = self._answer(request, start)
        if method == "GET" and attempt < self._faults["torn"]:
            whole = b"".join(body)
            return [whole[: len(whole) // 2]]
        return body

    def _control(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["REQUEST_METHOD"] == "PUT":
            self._faults = json.loads(request["wsgi.input"].read(int(request["CONTENT_LENGTH"])))
            self._attempts.clear()
        content = str(self._requests).encode()
        start("200 OK", [("Content-Length", str(len(content)))])
        return [content]


def _serve() -> None:
    import logging  # noqa: PLC0415  only in the server's process
    import threading  # noqa: PLC0415  only in the server's process

    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415  only in the server's process
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415  only in the server's process

    logging.disable(logging.CRITICAL)
    application = _Application(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, application, threaded=True)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # it ends with the process that has started it


if __name__ == "__main__":
    _serve()
