"""Transports and servers of asyncio on the simulated network."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from understudy.clusters.virtual.process_network import Listener, Wire
from understudy.clusters.virtual.sockets import SimulatedSocket

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_loop import ProcessLoop

HIGH_WATER_BYTES: Final = 64 * 1024
READ_BYTES: Final = 256 * 1024
"""The most bytes that a protocol gets at once, as asyncio reads from a socket."""


class SimulatedTransport(asyncio.Transport):
    """A transport over one end of a simulated connection.

    Args:
        server: the server that has accepted the connection; None for one that the process has opened.
        sock: what `get_extra_info("socket")` returns; None for a new one.
    """

    def __init__(
        self,
        loop: ProcessLoop,
        wire: Wire,
        protocol: Any,
        server: SimulatedServer | None = None,
        sock: SimulatedSocket | None = None,
    ) -> None:
        super().__init__({"peername": wire.peer, "sockname": wire.own})
        self._loop = loop
        self._wire = wire
        self._socket = sock
        self.set_protocol(protocol)
        self._server = server
        self._buffer: deque[bytes] = deque()
        self._buffered = 0
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_look_scheduled = False
        self._has_ended = False
        """Whether the other end has closed the connection."""
        self._is_closing = False
        self._is_ending = False
        """Whether `write_eof` was called."""
        self._is_lost = False
        """Whether `connection_lost` was called, or will be."""

    def begin(self) -> None:
        """Give the transport to its protocol, then read."""
        self._protocol.connection_made(self)
        if not self._is_lost:
            self._wire.watch(self._changed)
            self._changed()

    def __repr__(self) -> str:
        return f"<SimulatedTransport to {self._wire.peer}{' closing' if self._is_closing else ''}>"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            if self._socket is None:
                self._socket = SimulatedSocket.of(self._loop, wire=self._wire, timeout_s=0.0)
                self._wire.watch(None if self._is_lost else self._changed)
            return self._socket
        return super().get_extra_info(name, default)

    # ------------------------------------------------------------------ reading

    def _changed(self) -> None:
        """Let the process look at the connection, once however often it has changed."""
        if not self._is_look_scheduled and (self._buffer or self._wire.is_readable) and not self._is_lost:
            self._is_look_scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_look_scheduled = False
        if self._is_lost:
            return
        if self._buffer:
            self._flush()
        if self._is_reading_paused or self._is_closing or self._has_ended:
            return
        try:
            data = self._wire.read(READ_BYTES)
        except ConnectionResetError as error:
            self._lose(error)
            return
        if data is None:
            return
        try:
            if data:
                self._give(data)
                self._changed()
                return
            self._has_ended = True
            keeps_open = self._protocol.eof_received()
        except Exception as error:  # noqa: BLE001  asyncio closes the transport of a protocol that raises
            name = "data_received" if data else "eof_received"
            self._fail(error, f"Fatal error: protocol.{name}() call failed.")
            return
        if not keeps_open:
            self.close()

    def _give(self, data: bytes) -> None:
        if not self._is_buffered:
            self._protocol.data_received(data)
            return
        left = memoryview(data)
        while left and not self._is_lost:
            buffer = self._protocol.get_buffer(len(left))
            size = min(len(buffer), len(left))
            if not size:
                raise RuntimeError("get_buffer() returned an empty buffer")
            buffer[:size] = left[:size]
            left = left[size:]
            self._protocol.buffer_updated(size)

    def _fail(self, error: Exception, message: str) -> None:
        """Report an error of the protocol, and close the connection at once."""
        self._loop.call_exception_handler(
            {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
        )
        self._abandon(error)

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self._changed()

    def is_reading(self) -> bool:
        return not self._is_reading_paused and not self._is_closing

    # ------------------------------------------------------------------ writing

    def write(self, data: Any) -> None:
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._is_ending:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_lost or (self._is_closing and not self._buffer) or not data:
            return
        self._buffer.append(bytes(data))
        self._buffered += len(data)
        self._flush()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def _flush(self) -> None:
        """Send what the network takes, then let the protocol pause or resume writing."""
        wire = self._wire
        try:
            while self._buffer and wire.has_room:
                data = self._buffer.popleft()
                self._buffered -= len(data)
                wire.send(data)
        except BrokenPipeError as error:
            self._abandon(error)
            return
        if not self._buffer:
            if self._is_ending:
                wire.shut_down_sending()
            if self._is_closing:
                self._is_lost = True
                self._loop.call_soon(self._call_lost, None)
        if self._buffered > self._high or self._is_writing_paused:
            self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        is_full, is_empty = self._buffered > self._high, self._buffered <= self._low
        if not (is_empty if self._is_writing_paused else is_full):
            return
        self._is_writing_paused = not self._is_writing_paused
        name = "pause_writing" if self._is_writing_paused else "resume_writing"
        try:
            getattr(self._protocol, name)()
        except Exception as error:  # noqa: BLE001  asyncio reports it, and runs the next
            context = {"message": f"protocol.{name}() failed", "exception": error}
            self._loop.call_exception_handler({**context, "transport": self, "protocol": self._protocol})

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._pause_or_resume()

    def get_write_buffer_size(self) -> int:
        return self._buffered

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_closing or self._is_ending:
            return
        self._is_ending = True
        if not self._buffer:
            self._wire.shut_down_sending()

    # ------------------------------------------------------------------ the end

    def is_closing(self) -> bool:
        # The end of its process has closed it: a stream that is collected later shall not report that it is open.
        return self._is_closing or not self._loop.process.alive or self._loop.kernel.is_closed()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            if not self._buffer:
                self._is_lost = True
                self._loop.call_soon(self._call_lost, None)

    def abort(self) -> None:
        self._abandon(None)

    def _abandon(self, error: Exception | None) -> None:
        """Close the connection without sending the rest."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._buffer.clear()
            self._buffered = 0
            self._loop.call_soon(self._call_lost, error)

    def _lose(self, error: Exception) -> None:
        self._is_lost = self._is_closing = True
        self._buffer.clear()
        self._loop.call_soon(self._call_lost, error)

    def _call_lost(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
            if error is not None and isinstance(self._protocol, asyncio.StreamReaderProtocol):
                # A stream retrieves the exception itself, in its finaliser. If the stream is part of a cycle, the
                # garbage collector may finalise the future before it, and asyncio then reports the exception.
                closed: asyncio.Future[None] = self._protocol._closed  # type: ignore[attr-defined]  # as its `__del__`
                if closed.done() and not closed.cancelled():
                    closed.exception()
        finally:
            self._wire.close()
            if self._socket is not None:
                self._socket.close()
            if self._server is not None:
                self._server.forget(self)

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)


class SimulatedServer(asyncio.AbstractServer):
    """What `loop.create_server` returns: it accepts the connections of listening sockets.

    Args:
        factory: makes the protocol of each connection.
        sockets: the listening sockets.
    """

    def __init__(self, loop: ProcessLoop, factory: Callable[[], Any], sockets: list[SimulatedSocket]) -> None:
        self._loop = loop
        self._factory = factory
        self._sockets = sockets
        self._listeners: list[Listener] = [sock.take_listener() for sock in sockets]
        self._is_serving = False
        self._is_closed = False
        self._transports: dict[SimulatedTransport, None] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._forever: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<SimulatedServer {', '.join(str(each.address) for each in self._listeners)}>"

    def _accept(self) -> None:
        for listener in self._listeners:
            while self._is_serving and not self._is_closed and (wire := listener.accept()) is not None:
                try:
                    transport = SimulatedTransport(self._loop, wire, self._factory(), self)
                    self._transports[transport] = None
                    transport.begin()
                except Exception as error:  # noqa: BLE001  asyncio reports it, and accepts the next connection
                    wire.close(is_reset=True)
                    self._loop.call_exception_handler(
                        {"message": "Error on transport creation for incoming connection", "exception": error}
                    )

    def _arrived(self) -> None:
        self._loop.call_soon(self._accept)

    def forget(self, transport: SimulatedTransport) -> None:
        """Note that a connection is over."""
        self._transports.pop(transport, None)
        self._wake()

    def _wake(self) -> None:
        if self._is_closed and not self._transports:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        return () if self._is_closed else tuple(self._sockets)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._is_serving and not self._is_closed

    async def start_serving(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Accept connections from now on. Harmless if it does."""
        if not self._is_serving:
            self._is_serving = True
            for listener in self._listeners:
                listener.changed = self._arrived
            self._arrived()

    async def serve_forever(self) -> None:
        if self._forever is not None:
            raise RuntimeError(f"server {self!r} is already being awaited on serve_forever()")
        if self._is_closed:
            raise RuntimeError(f"server {self!r} is closed")
        self.begin()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        except asyncio.CancelledError:
            self.close()
            await self.wait_closed()
            raise
        finally:
            self._forever = None

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            for listener in self._listeners:
                listener.stop_listening()
            for sock in self._sockets:
                sock.close()
            if self._forever is not None and not self._forever.done():
                self._forever.cancel()
            self._wake()

    def close_clients(self) -> None:
        for transport in tuple(self._transports):
            transport.close()

    def abort_clients(self) -> None:
        for transport in tuple(self._transports):
            transport.abort()

    async def wait_closed(self) -> None:
        # Before Python 3.12 it does not wait for the connections of a closed server.
        if self._is_closed and (not self._transports or sys.version_info < (3, 12)):
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter
