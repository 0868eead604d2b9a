"""Serves before an emulator, in one process: hands requests on to it, and adds faults."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple

from tests.understudy.history.storage.faulty_server import FAULTS, Faults, end_with_input
from understudy.clusters.processes.free_ports import free_ports

_START_S: Final = 60
_BY_HOP: Final = ("connection", "transfer-encoding", "content-length", "expect")
"""Headers of a connection, which are not handed on."""


class Request(NamedTuple):
    """A request. `path` is as it was sent, with its query; the names of headers are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Answer(NamedTuple):
    """An answer. `length` is the length of the body that a HEAD does not get."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    length: int | None = None


Emulator = Callable[[Request], Answer]
"""Hands a request on to the emulator, and returns its answer."""


def serve(command: Callable[[int], Sequence[str]], answer: Callable[[Emulator, Request], Answer]) -> None:
    """Start an emulator and a server before it; print the server's address; end both when the input ends.

    Args:
        command: the emulator's command, for a port.
        answer: makes the answer to a request.
    """
    [port] = free_ports(1)
    emulator = subprocess.Popen(command(port), stdout=sys.stderr, stdin=subprocess.DEVNULL)
    try:
        _wait_for(port, emulator)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda request: _handed_on(port, request), answer))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        end_with_input()
    finally:
        emulator.kill()
        emulator.wait()


def _handler(emulator: Emulator, answer: Callable[[Emulator, Request], Answer]) -> type[BaseHTTPRequestHandler]:
    faults = Faults()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            request = Request(
                self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, self._body()
            )
            if request.path == FAULTS:
                if request.method == "PUT":
                    faults.set(request.body)
                self._send(Answer(200, {}, f"{faults.requests} {faults.tokens}".encode()))
                return
            faults.tokens += request.headers.get("authorization", "").startswith("Bearer ey")
            ranges = [request.headers.get(name, "") for name in ("range", "x-ms-range", "content-range")]
            is_busy, is_torn = faults.next(request.method, request.path, *ranges)
            if is_busy:
                self._send(Answer(503, {"Content-Type": "text/plain"}, b"busy"))
                return
            found = answer(emulator, request)
            self._send(found, end=len(found.body) // 2 if is_torn else None)

        do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815  names of the base class

        def handle_expect_100(self) -> bool:
            goes_on = super().handle_expect_100()
            self.wfile.flush()
            return goes_on

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def _send(self, found: Answer, end: int | None = None) -> None:
            """Send an answer, or its beginning up to `end`, and break off."""
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            if found.status not in (204, 304):
                self.send_header("Content-Length", str(len(found.body) if found.length is None else found.length))
            self.end_headers()
            self.close_connection = self.close_connection or end is not None
            with contextlib.suppress(ConnectionError):  # a client closes a file that it does not read to its end
                if self.command != "HEAD":
                    self.wfile.write(found.body[:end])
                self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _handed_on(port: int, request: Request) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {name: value for name, value in request.headers.items() if name not in _BY_HOP}
        length = {"content-length": str(len(request.body))} if request.body or request.method in ("PUT", "POST") else {}
        connection.request(request.method, request.path, request.body or None, headers | length)
        answer = connection.getresponse()
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in (*_BY_HOP, "date", "server")}
        body = answer.read()
        told = answer.getheader("Content-Length")
        return Answer(answer.status, kept, body, int(told) if told and request.method == "HEAD" else None)
    finally:
        connection.close()


def _wait_for(port: int, emulator: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and emulator.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"{emulator.args!r} does not listen on port {port}; exit code {emulator.poll()}")
