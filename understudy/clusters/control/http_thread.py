"""`HttpThread`: serves an HTTP application on a socket of this machine, in its own thread."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar

import uvicorn
from starlette.types import ASGIApp

from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.bounded_connections import BoundedH11

ANY_PORT: Final = ("127.0.0.1", 0)
_START_TIMEOUT_S: Final = 10.0
_END_TIMEOUT_S: Final = 5.0
MOST_CONNECTIONS: Final = 64
"""Maximum number of connections to a server, if it is made without another number."""
_POLL_S: Final = 0.005
_CALL_TIMEOUT_S: Final = 5.0
_Result = TypeVar("_Result")


class HttpThread:
    """A server on a listening socket; `start` makes it answer, `close` ends it.

    As a context manager it does both; it also closes if the start fails.

    Args:
        application: the application that answers.
        listener: the socket that it is served on; `close` closes it.
        name: the name of the thread.
        beside: runs in the same event loop while the server does, and is cancelled at its end.
        before_end: is called in that loop when the server is asked to end, so that endless answers can end.
        most_connections: the number of open connections from which on requests are answered with 503. Some more are
            accepted, and further ones closed.
    """

    def __init__(
        self,
        application: ASGIApp,
        listener: socket.socket,
        *,
        name: str,
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
        before_end: Callable[[], None] = lambda: None,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._socket = listener
        self._address = address_of(listener)
        self._before_end = before_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beside = beside
        self._server = uvicorn.Server(
            uvicorn.Config(
                application,
                loop="asyncio",
                http=BoundedH11,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=most_connections,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start to answer, and return once the server answers.

        Raises:
            ClusterError: it does not answer within ten seconds.
        """
        self._thread.start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise ClusterError(f"{address_of(self._socket)} was not served")
            time.sleep(_POLL_S)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask_to_end(self) -> None:
        """Let the server end, without waiting for it."""
        self._server.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._before_end)

    def close(self) -> None:
        """End the server, and close its socket. Harmless if it has not been started."""
        self.ask_to_end()
        if self._thread.is_alive():
            self._thread.join(_END_TIMEOUT_S)
        self._socket.close()

    def call(self, function: Callable[[], _Result]) -> _Result:
        """Call a function in the server's event loop, from another thread, and return its result.

        Raises:
            ClusterError: the server has ended, or its loop does not call within five seconds.
        """
        ended = ClusterError(f"{self._address} is not served any more")
        if self._loop is None or not self.is_running:
            raise ended

        async def called() -> _Result:
            return function()

        coroutine = called()
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_CALL_TIMEOUT_S)
        except (RuntimeError, TimeoutError):  # the loop has ended
            coroutine.close()
            raise ended from None

    def _serve(self) -> None:
        asyncio.run(self._serve_beside())

    async def _serve_beside(self) -> None:
        self._loop = asyncio.get_running_loop()
        beside = asyncio.ensure_future(self._beside()) if self._beside is not None else None
        await self._server.serve(sockets=[self._socket])
        if beside is not None:
            beside.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beside


def address_of(listener: socket.socket) -> str:
    """Return `host:port` of a socket, with an IPv6 address in brackets: the value of the header Host."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def hosts_of(listener: socket.socket) -> frozenset[str]:
    """Return the values of the header Host that requests to a socket may have."""
    host, port = listener.getsockname()[:2]
    names = {address_of(listener)}
    if is_loopback(host):
        names.add(f"localhost:{port}")
    return frozenset(names)


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or an address of loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int, *, what: str, option: str) -> socket.socket:
    """Open a listening socket.

    Args:
        host: an IP address or `localhost`.
        port: 0 is any free one.
        what: a name for the server in messages, such as `the control port`.
        option: the option of the command line that gives another address.

    Raises:
        ClusterError: the port cannot be opened.
    """
    address = "127.0.0.1" if host == "localhost" else host
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"{what} {host}:{port} cannot be opened: {error.strerror}; give another by {option}"
        ) from None
    return listener
