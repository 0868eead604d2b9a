"""`S3Server` is an S3 server of moto, with faults."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tests.understudy.history.storage.faulty_server import FAULTS, Faults, FaultyServer, end_with_input

_BUSY = (
    b'<?xml version="1.0" encoding="UTF-8"?>'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


class S3Server(FaultyServer):
    """Answers requests while its block runs."""

    module = "tests.understudy.history.storage.s3_server"

    @classmethod
    def environment_at(cls, url: str) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "understudy",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @classmethod
    def url_of(cls, name: str) -> str:
        return f"s3://{name}"

    def make(self, name: str) -> None:
        self.send("PUT", f"/{name}", b"")


# ------------------------------------------------------------------ in the server's process


class _Application:
    def __init__(self, answer: Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]) -> None:
        self._answer = answer
        self._faults = Faults()

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method = request["REQUEST_METHOD"]
        if request["PATH_INFO"] == FAULTS:
            return self._control(request, start)
        is_busy, is_torn = self._faults.next(
            method, *(str(request.get(name)) for name in ("PATH_INFO", "QUERY_STRING", "HTTP_RANGE"))
        )
        if is_busy:
            start("503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(_BUSY)))])
            return [] if method == "HEAD" else [_BUSY]
        body = self._answer(request, start)
        if is_torn:
            whole = b"".join(body)
            return [whole[: len(whole) // 2]]
        return body

    def _control(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if request["REQUEST_METHOD"] == "PUT":
            self._faults.set(request["wsgi.input"].read(int(request["CONTENT_LENGTH"])))
        content = str(self._faults.requests).encode()
        start("200 OK", [("Content-Length", str(len(content)))])
        return [content]


def _serve() -> None:
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
    end_with_input()


if __name__ == "__main__":
    _serve()
