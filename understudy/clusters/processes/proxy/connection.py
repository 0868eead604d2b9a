"""One connection through the proxy: two sockets, and the bytes of both directions with the faults of their links.

Everything here runs on the proxy's event loop. Bytes that may pass are written at once, as they were received.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import socket
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from understudy.clusters.processes.proxy import frames
from understudy.clusters.processes.proxy.frames import FrameScanner, PeerScanner, Piece, ProxiedSession
from understudy.clusters.request_rules import (
    KAFKA_ANSWER,
    KAFKA_REQUEST,
    Effect,
    LostWrite,
    RequestRule,
    corrupted,
    shortened,
)

CONNECT_TIMEOUT_S: Final = 5.0
PEER_LISTENS_S: Final = 2.0
"""Time that a server of an ensemble is given until it listens. One that follows a leader too early tries again, but not
if the proxy has accepted its connection: it would then cause another election."""
_PEER_TRIES_EVERY_S: Final = 0.02
DUPLICATE_TIMEOUT_S: Final = 5.0
"""Time that the second connection of a duplicated request waits for the answer."""
PIECE_GAP_S: Final = 0.001
"""Time between two pieces of bytes that a link forwards in pieces."""
DELAYED_BYTES: Final = 4 * 1024 * 1024
"""Number of bytes of one direction that a delay or a limit keeps; further bytes stay in the kernel."""

_KAFKA_HEADERS: Final = (KAFKA_REQUEST, KAFKA_ANSWER)
_ZOOKEEPER_HEADERS: Final = (frames.ZOOKEEPER_REQUEST, frames.ZOOKEEPER_ANSWER)
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)
_numbers = itertools.count(1)


class Language(enum.Enum):
    """The protocol of a connection's frames."""

    KAFKA = "Kafka"
    ZOOKEEPER = "ZooKeeper"
    PEER = "ZooKeeper's servers among themselves"


class Route(NamedTuple):
    """The destination of a listener of the proxy."""

    destination: str
    """The node, such as `broker-1` or `zookeeper`."""
    host: str
    port: int
    language: Language
    chroot: str
    election_address: Callable[[], str] | None = None
    """The address of the proxy by which the destination can connect to the source for an election; None if the
    listener does not lead to an election port."""


@dataclass(eq=False, slots=True)
class ProxiedLink:
    """One direction between two nodes, and the faults injected into it."""

    source: str
    destination: str
    is_held: bool = False
    holds_next_event: bool = False
    """Whether the link is held as soon as a watch event of ZooKeeper's comes."""
    is_refusing: bool = False
    """Whether connections that the source opens are reset."""
    delay_ms: float = 0.0
    bytes_per_s: float = 0.0
    """Number of bytes that pass in a second on each connection; 0 for no limit."""
    piece_bytes: int = 0
    """Size of the pieces, one a millisecond, in which the source's bytes are forwarded; 0 for no splitting."""
    rules: list[RequestRule] = field(default_factory=list)
    lost_writes: list[LostWrite] = field(default_factory=list)
    flows: dict[Flow, None] = field(default_factory=dict)

    @property
    def is_slow(self) -> bool:
        """Whether bytes from the source are forwarded later than they arrive."""
        return bool(self.delay_ms or self.bytes_per_s or self.piece_bytes)

    def changed(self) -> None:
        """Let every connection act on a fault that has been injected or ended."""
        for flow in tuple(self.flows):
            flow.pump()


class Owner(Protocol):
    """The part of the proxy that a connection uses."""

    def forget(self, connection: ProxiedConnection) -> None: ...

    def keep(self, task: asyncio.Task[None]) -> None: ...

    def note_session(self, node: str, session: ProxiedSession, server: tuple[str, int]) -> None: ...


class _Ending(enum.Enum):
    """The ending of a direction once its bytes are forwarded."""

    END_OF_STREAM = 1
    RESET = 2
    CUT = 3
    """The sender's side is reset; the forwarded bytes arrive."""


class Flow:
    """The bytes of one direction of a connection.

    While its link is held, or one of its frames, the proxy does not read the sender's socket: the kernel keeps the
    bytes, and then lets the sender wait.
    """

    def __init__(self, connection: ProxiedConnection, link: ProxiedLink, *, of_requests: bool) -> None:
        self.link = link
        self.connection = connection
        self.sender: asyncio.Transport | None = None
        self.receiver: asyncio.Transport | None = None
        is_zookeeper = connection.language is Language.ZOOKEEPER
        requests, answers = _ZOOKEEPER_HEADERS if is_zookeeper else _KAFKA_HEADERS
        self._scanner: FrameScanner | PeerScanner
        if connection.language is Language.PEER:
            self._scanner = PeerScanner(connection.election_address if of_requests else None)
        else:
            self._scanner = FrameScanner(requests if of_requests else answers, first_is_other=is_zookeeper)
        self._of_requests = of_requests
        self._pending: deque[Piece] = deque()
        """Bytes that were received and are held; at most the result of one read, and one frame."""
        self._delayed: deque[tuple[float, bytes]] = deque()
        self._delayed_bytes = 0
        self._last_due = 0.0
        """Time at which the last delayed bytes are sent, by the loop's clock."""
        self._timer: asyncio.TimerHandle | None = None
        self._holds: set[str] = set()
        """The names of the rules that hold one of its frames."""
        self._is_receiver_full = False
        self._is_reading = True
        self._ending: _Ending | None = None
        self._is_discarding = False
        self._awaits_session = is_zookeeper and not of_requests
        """Whether the answer to the connect request, which names the session, is still to come."""
        self.is_over = False
        link.flows[self] = None

    @property
    def _is_held(self) -> bool:
        return self.link.is_held or bool(self._holds) or self.receiver is None

    def received(self, data: bytes) -> None:
        """Forward bytes of the sender, or keep them while they are held."""
        if self.is_over:
            return
        if self._of_requests:
            wants_frames = bool(self.link.rules or self.link.lost_writes)
        else:
            wants_frames = bool(self._awaits_session or self.connection.lost_answers or self.link.holds_next_event)
        is_delayed = self._delayed or self.link.is_slow
        if self.receiver and not (wants_frames or self._pending or is_delayed or self._is_discarding or self._is_held):
            if passing := self._scanner.advance(data):
                self.receiver.write(passing)
            return
        self._pending.extend(self._scanner.scan(data, whole=wants_frames))
        self.pump()

    def pump(self) -> None:
        """Forward bytes that are no longer held, and continue to read once everything was forwarded."""
        if self.receiver is None and not self.link.is_held:
            self.connection.connect()
        while self._pending and not self._is_held and not self.is_over:
            piece = self._pending.popleft()
            if self._is_discarding:
                continue
            if self._awaits_session:
                self._awaits_session = False
                self.connection.note_session(frames.session_of(piece.data))
            data = piece.data if piece.header is None else self._decide(piece, piece.header)
            if data is not None:
                self._deliver(data)
        self._finish_if_empty()
        self._read_or_pause()

    def release(self, name: str) -> None:
        """Forward the frame that the rule of this name holds. Harmless if it holds none."""
        if name in self._holds:
            self._holds.discard(name)
            self.pump()

    def ended(self, ending: _Ending) -> None:
        """Note that the sender has closed or reset its socket; the receiver's follows when all bytes are forwarded."""
        if self._ending is None and not self.is_over:
            self._ending = ending
            if rest := self._scanner.rest():
                self._pending.append(Piece(rest, None, False))
            self.pump()

    def receiver_full(self, is_full: bool) -> None:
        self._is_receiver_full = is_full
        self._read_or_pause()

    def stop(self) -> None:
        """Forward nothing more."""
        self.is_over = True
        self._pending.clear()
        self._delayed.clear()
        self.link.flows.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ------------------------------------------------------------------ frames

    def _decide(self, piece: Piece, header: tuple[int, ...]) -> bytes | None:
        """Return the bytes of a frame to forward now; None for nothing."""
        if not self._of_requests:
            return self._decide_answer(piece, header[0])
        if self.connection.language is Language.ZOOKEEPER:
            return self._decide_write(piece)
        api, _, correlation_id = header
        for rule in self.link.rules:
            if rule.selects(api, is_whole=piece.is_whole):
                return self._apply(rule, piece, correlation_id)
        return piece.data

    def _apply(self, rule: RequestRule, piece: Piece, correlation_id: int) -> bytes | None:
        connection = self.connection
        match rule.effect:
            case Effect.HOLD:
                self._hold(rule.name, piece)
                return None
            case Effect.DELAY:
                name = f"{rule.name}, frame {next(_numbers)}"
                self._hold(name, piece)
                connection.loop.call_later(rule.delay_ms / 1000, self.release, name)
                return None
            case Effect.LOSE_ANSWER:
                connection.lost_answers.add(correlation_id)
            case Effect.CUT_BEFORE:
                connection.reset()
                return None
            case Effect.CUT_AFTER:
                self._pending.clear()
                self._ending = _Ending.CUT
            case Effect.DUPLICATE:
                connection.send_again(piece.data)
            case Effect.CORRUPT:
                return corrupted(piece.data, rule.count)
            case Effect.SHORTEN:
                return shortened(piece.data, rule.count)
        return piece.data

    def _hold(self, name: str, piece: Piece) -> None:
        self._holds.add(name)
        self._pending.appendleft(Piece(piece.data, None, False))

    def _decide_answer(self, piece: Piece, answered: int) -> bytes | None:
        """Return the answer or event to forward now; None if it is held, or lost by a reset of the connection."""
        lost = self.connection.lost_answers
        if answered in lost:
            self.connection.reset()
            return None
        is_event = self.connection.language is Language.ZOOKEEPER and answered == frames.WATCH_EVENT_XID
        if is_event and self.link.holds_next_event:
            self.link.holds_next_event = False
            self.link.is_held = True
            self._pending.appendleft(piece)
            return None
        # The watch event of the write would reveal its outcome. ZooKeeper repeats it after the reconnect.
        return None if lost and is_event else piece.data

    def _decide_write(self, piece: Piece) -> bytes | None:
        if not self.link.lost_writes or not piece.is_whole:
            return piece.data
        chroot = self.connection.chroot
        paths = [path.removeprefix(chroot) for path in frames.written_paths(piece.data)]
        for lost in self.link.lost_writes:
            if any(lost.path in path for path in paths):
                self.link.lost_writes.remove(lost)
                if not lost.applied:
                    self.connection.reset()
                    return None
                (_, xid, _) = frames.ZOOKEEPER_REQUEST.unpack_from(piece.data)
                self.connection.lost_answers.add(xid)
                self._is_discarding = True
                return piece.data
        return piece.data

    # ------------------------------------------------------------------ sending

    def _deliver(self, data: bytes) -> None:
        assert self.receiver is not None
        if not (self.link.is_slow or self._delayed):
            self.receiver.write(data)
            return
        size = self.link.piece_bytes or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            due = max(self.connection.loop.time() + self.link.delay_ms / 1000, self._last_due)
            if self.link.bytes_per_s:
                due += len(piece) / self.link.bytes_per_s
            if self.link.piece_bytes:
                due += PIECE_GAP_S
            self._last_due = due
            self._delayed.append((due, piece))
        self._delayed_bytes += len(data)
        if self._timer is None:
            self._timer = self.connection.loop.call_at(self._delayed[0][0], self._send_due)

    def _send_due(self) -> None:
        self._timer = None
        now = self.connection.loop.time()
        while self._delayed and self._delayed[0][0] <= now:
            _, data = self._delayed.popleft()
            self._delayed_bytes -= len(data)
            if self.receiver is not None:
                self.receiver.write(data)
        if self._delayed:
            self._timer = self.connection.loop.call_at(self._delayed[0][0], self._send_due)
        self._finish_if_empty()
        self._read_or_pause()

    def _finish_if_empty(self) -> None:
        if self._ending is None or self._pending or self._delayed or self.is_over or self._is_held:
            return
        assert self.receiver is not None
        self.stop()
        match self._ending:
            case _Ending.RESET:
                self.connection.reset()
            case _Ending.CUT:
                self.connection.cut()
            case _Ending.END_OF_STREAM:
                if not self.receiver.is_closing():
                    with contextlib.suppress(OSError):  # the receiver has closed its socket meanwhile
                        self.receiver.write_eof()
                self.connection.flow_finished()

    def _read_or_pause(self) -> None:
        wanted = not (
            self._is_held
            or self._pending
            or self._is_receiver_full
            or self._delayed_bytes > DELAYED_BYTES
            or self._ending is not None
        )
        if self.sender is not None and wanted != self._is_reading:
            self._is_reading = wanted
            if wanted:
                self.sender.resume_reading()
            else:
                self.sender.pause_reading()


class Side(asyncio.Protocol):
    """One of the two sockets of a connection.

    Args:
        connected: called with this side before its first bytes are received.
    """

    transport: asyncio.Transport

    def __init__(self, connected: Callable[[Side], None]) -> None:
        self._connected = connected
        self.incoming: Flow | None = None
        """Direction whose bytes this socket receives."""
        self.outgoing: Flow | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # Not at once: before Python 3.11.5 asyncio begins to read after this call, even if reading is paused in it.
        asyncio.get_running_loop().call_soon(self._connected, self)

    def attach(self, incoming: Flow, outgoing: Flow) -> None:
        """Begin to forward between this socket and the other one."""
        self.incoming, self.outgoing = incoming, outgoing
        incoming.sender = outgoing.receiver = self.transport
        incoming.pump()
        outgoing.pump()

    def data_received(self, data: bytes) -> None:
        if self.incoming is not None:
            self.incoming.received(data)

    def eof_received(self) -> bool:
        if self.incoming is not None:
            self.incoming.ended(_Ending.END_OF_STREAM)
        return True  # the other direction can still be used

    def connection_lost(self, exc: Exception | None) -> None:
        if self.incoming is not None and self.outgoing is not None:
            self.outgoing.stop()
            self.incoming.ended(_Ending.RESET)
            self.incoming.connection.flow_finished()

    def pause_writing(self) -> None:
        if self.outgoing is not None:
            self.outgoing.receiver_full(True)

    def resume_writing(self) -> None:
        if self.outgoing is not None:
            self.outgoing.receiver_full(False)


class ProxiedConnection:
    """A connection that a node has opened to another one through the proxy."""

    def __init__(self, owner: Owner, route: Route, accepted: Side, requests: ProxiedLink, answers: ProxiedLink) -> None:
        self.loop = asyncio.get_running_loop()
        self.language = route.language
        self.chroot = route.chroot
        self.election_address = route.election_address().encode() if route.election_address is not None else None
        self.lost_answers: set[int] = set()
        """Correlation ids or xids: the connection is reset instead of forwarding their answers."""
        self._owner = owner
        self._route = route
        self._accepted = accepted
        self._opened: Side | None = None
        self._is_connecting = False
        self._is_over = False
        self._requests = Flow(self, requests, of_requests=True)
        self._answers = Flow(self, answers, of_requests=False)
        accepted.attach(self._requests, self._answers)

    @property
    def nodes(self) -> tuple[str, str]:
        """The node that has opened the connection, and the node that it leads to."""
        return self._requests.link.source, self._requests.link.destination

    def note_session(self, session: ProxiedSession | None) -> None:
        """Note which session of ZooKeeper the connection has; None if the server refused it."""
        if session is not None:
            self._owner.note_session(self.nodes[0], session, (self._route.host, self._route.port))

    def connect(self) -> None:
        """Open the second socket. Harmless if it is open, or being opened."""
        if not (self._is_connecting or self._opened or self._is_over):
            self._is_connecting = True
            self._owner.keep(self.loop.create_task(self._connect()))

    async def _connect(self) -> None:
        give_up_at = self.loop.time() + (PEER_LISTENS_S if self.language is Language.PEER else 0.0)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                while not self._is_over:
                    try:
                        await self.loop.create_connection(
                            lambda: Side(self._connected), self._route.host, self._route.port
                        )
                    except ConnectionRefusedError:
                        if self.loop.time() > give_up_at:
                            raise
                        await asyncio.sleep(_PEER_TRIES_EVERY_S)
                    else:
                        return
        except OSError:  # TimeoutError is one
            self.reset()

    def _connected(self, opened: Side) -> None:
        if self._is_over:
            opened.transport.abort()
        else:
            self._opened = opened
            opened.attach(self._answers, self._requests)

    def send_again(self, frame: bytes) -> None:
        """Send a request on a second connection, and ignore its answer."""
        self._owner.keep(self.loop.create_task(_send_once(self._route.host, self._route.port, frame)))

    def reset(self) -> None:
        """Break both sockets at once (RST); bytes that were not forwarded are lost."""
        self._end()
        for side in (self._accepted, self._opened):
            if side is not None:
                reset(side.transport)

    def cut(self) -> None:
        """Break the socket of the node that has opened the connection; the other node receives the forwarded bytes."""
        self._end()
        reset(self._accepted.transport)
        if self._opened is not None:
            self._opened.transport.close()

    def flow_finished(self) -> None:
        """Close both sockets if both directions have ended."""
        if self._requests.is_over and self._answers.is_over:
            self._end()
            for side in (self._accepted, self._opened):
                if side is not None:
                    side.transport.close()

    def _end(self) -> None:
        self._is_over = True
        self._requests.stop()
        self._answers.stop()
        self._owner.forget(self)


def reset(transport: asyncio.Transport) -> None:
    """Close a socket with a RST; bytes that it has not sent are lost."""
    opened = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # the socket is closed already
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    transport.abort()


async def _send_once(host: str, port: int, frame: bytes) -> None:
    with contextlib.suppress(OSError):
        async with asyncio.timeout(DUPLICATE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(frame)
                await reader.read(1)
            finally:
                writer.close()
