"""The bounds of an HTTP server's connections, on sockets."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from understudy.clusters.control.bounded_connections import SPARE, BoundedH11
from understudy.clusters.control.http_thread import HttpThread, listen

MOST = 3


async def answer(request: Request) -> Response:
    return Response(b"here")


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """Serve one page with few connections."""
    listener = listen("127.0.0.1", 0, what="the test", option="--test")
    address = listener.getsockname()
    with HttpThread(Starlette(routes=[Route("/", answer)]), listener, name="test", most_connections=MOST):
        yield address


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(60)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def status(address: tuple[str, int]) -> int:
    connection = http.client.HTTPConnection(*address, timeout=60)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/")
            return connection.getresponse().status
        except ConnectionError:
            return 503  # closed, as the server has not noticed yet that others have closed theirs


def test_more_connections_than_a_server_may_have_are_closed_and_closed_ones_make_room(
    address: tuple[str, int],
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MOST + SPARE):
            stack.enter_context(contextlib.closing(socket.create_connection(address)))
        with contextlib.closing(socket.create_connection(address)) as further:
            assert is_closed(further)
    while (found := status(address)) == 503:
        pass
    assert found == 200


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_connection_without_a_whole_request_is_closed(
    address: tuple[str, int], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedH11, "idle_s", 0.05)
    with contextlib.closing(socket.create_connection(address)) as idle:
        idle.sendall(sent)
        assert is_closed(idle)


def test_a_connection_whose_second_request_does_not_end_is_closed(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedH11, "idle_s", 0.05)
    with contextlib.closing(socket.create_connection(address)) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n")
        answered = b""
        idle.settimeout(60)
        with contextlib.suppress(ConnectionError):
            while part := idle.recv(4096):
                answered += part
        assert answered.endswith(b"here")
