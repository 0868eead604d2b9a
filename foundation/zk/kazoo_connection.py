"""kazoo, driven: one session's connection thread, and the one way from it to the loop. The only file that imports
kazoo.

kazoo opens the session, keeps it alive, reconnects and carries frames, in one thread per session, the *connection
thread*. Everything that thread learns (answers, watch events, the connection lost, resumed, the session over) crosses
to the loop through one queue, so that the loop sees it in the order of the connection.

Where kazoo is not used as it comes:

- its two worker threads are not started: kazoo would hand answers to one and watches to the other, and lose their
  order;
- its table of watches is bypassed: kazoo forgets it at every reconnect, this adapter arms the watches again
  (`Watches`);
- its new session after an expired one is prevented: a handle dies with its session;
- one byte in its pipe wakes it for all requests that wait, where it wants one for each: some three hundred fill the
  pipe, and then loop and connection thread would block in it, each on the other;
- a server that is silent is left even while requests keep coming: kazoo takes each of them for a ping, and expects no
  answer;
- a request that the loop sent before it heard of a cut is not carried over to the next connection;
- `select.poll` replaces a fresh epoll object per wait, which halves the cost of an operation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionDropped, ConnectionLoss, ZookeeperError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import CloseInstance, Connect, Watch

from foundation.zk import jute
from foundation.zk.client import (
    Failure,
    Node,
    Notification,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    WatchKind,
)

MULTI_READ_PATHS = 1_000
"""Znodes asked for in one request: beyond it nothing gets faster, and an answer would grow past what one should
buffer."""

SET_WATCHES_BYTES = 128 * 1024
"""The size at which the watches to arm again are split over requests, as in Java's client."""

CONNECT_TRIES = 3
"""How often within one session timeout a server may leave a connect request unanswered."""

_WATCH_KINDS = {1: WatchKind.CREATED, 2: WatchKind.DELETED, 3: WatchKind.CHANGED, 4: WatchKind.CHILDREN}
_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0, "max_jitter": 0.4}

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

# At DEBUG kazoo formats every request; at INFO it tells what our own log tells.
_kazoo_log = logging.getLogger("kazoo.client")
_kazoo_log.setLevel(logging.WARNING)
# What it says of every session that was told to stop while it was not connected, an expired one for example.
_kazoo_log.addFilter(lambda record: "within the connection retry policy" not in record.getMessage())


class LoopSide(Protocol):
    """The handle of a session, told everything on the loop and in the order of the connection."""

    def opened(self) -> None: ...
    def answered(self, future: asyncio.Future[Reply], reply: Reply) -> None: ...
    def watch_fired(self, path: str, kind: WatchKind) -> None:
        """`path` is the server's, chroot included."""

    def notified(self, notification: Notification) -> None: ...
    def thread_ended(self) -> None:
        """Nothing comes from kazoo any more."""


Reply: TypeAlias = tuple[object, int]
"""A result or `Failure`, and the zxid of the answer."""


class Request(NamedTuple, Generic[_T]):
    """A request in the shape kazoo's connection sends and reads."""

    type: int
    body: bytes
    read: Callable[[bytes, int], _T]

    def serialize(self) -> bytes:
        return self.body

    def deserialize(self, data: bytes, offset: int) -> _T:
        return self.read(data, offset)


class Crossing:
    """The one way from the connection thread to the loop: calls happen on the loop in the order they were put."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._awake = False

    def put(self, call: Callable[..., object], *args: object) -> None:
        self._calls.append((call, args))
        if not self._awake:
            self._awake = True
            # A loop that is closed has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        # Cleared first: what is put from here on either is seen below or wakes the loop again.
        self._awake = False
        while self._calls:
            call, args = self._calls.popleft()
            try:
                call(*args)
            except Exception as error:  # noqa: BLE001 - one listener's mistake must not hold up the session
                self._loop.call_exception_handler({"message": "a ZooKeeper listener raised", "exception": error})


class _Answer:
    """What kazoo calls an async result: told the answer in the connection thread, it crosses it to the loop."""

    def __init__(
        self, link: KazooLink, future: asyncio.Future[Reply], arming: Arming | None, watched: Sequence[str], cuts: int
    ) -> None:
        self.cuts = cuts
        """Those the loop had heard of when it sent the request."""
        self._link = link
        self._future = future
        self._arming = arming
        self._watched = watched

    def set(self, value: object) -> None:
        # kazoo answers an exists of an absent znode with None.
        result = Failure.NO_NODE if value is None else value
        if self._arming is not None:
            self._arming(self._link.watches, result)
        if self._watched:
            found = zip(self._watched, cast(list[object], value), strict=True)
            paths = [path for path, node in found if isinstance(node, Node)]
            self._watched = ()
            if paths:
                self._link.arm(paths, _Armed(self, value))
                return
        self._link.answered(self._future, result)

    def set_exception(self, error: Exception) -> None:
        failure = _failure(error)
        if self._arming is not None:
            self._arming(self._link.watches, failure)
        if isinstance(error, ConnectionLoss):
            self._link.suspended()
        self._link.answered(self._future, failure)


class _Armed:
    """The answer to the SetWatches behind a read: only now is the read answered."""

    def __init__(self, answer: _Answer, value: object) -> None:
        self.cuts = answer.cuts
        self._answer = answer
        self._value = value

    def set(self, _: object) -> None:
        self._answer.set(self._value)

    def set_exception(self, error: Exception) -> None:
        self._answer.set_exception(error)


class _ArmedAgain:
    """The answer to the last SetWatches after a reconnect."""

    def __init__(self, link: KazooLink) -> None:
        self._link = link

    def set(self, _: object) -> None:
        self._link.armed_again()

    def set_exception(self, error: Exception) -> None:
        """The next connection begins again."""


def _failure(error: Exception) -> Failure:
    code = error.code if isinstance(error, ZookeeperError) else None
    if code in jute.FAILURES:
        return jute.FAILURES[code]
    if not isinstance(error, ConnectionLoss):
        _log.warning("ZooKeeper answered with %r, which says nothing about the request's outcome", error)
    return Failure.UNKNOWN


# ------------------------------------------------------------------ kazoo's side


class Watches:
    """The watches the server holds for this session, by what armed them. Touched by the connection thread only.

    A server forgets them with the connection. They are armed again, first of all, on the next one, as of the last zxid
    seen: the server reports at once what has changed since.
    """

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.existence: dict[str, None] = {}
        """Of znodes that were absent: they wait for creation."""
        self.children: dict[str, None] = {}

    def fire(self, path: str, kind: WatchKind) -> bool:
        """Take away what an event uses up; whether anything was there. Two lists of an answered SetWatches may both
        tell of one
        deletion: the second time there is nothing."""
        used = []
        if kind is not WatchKind.CHILDREN:
            used += [self.data, self.existence]
        if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
            used += [self.children]
        armed = [watches for watches in used if path in watches]
        for watches in armed:
            del watches[path]
        return bool(armed)

    def requests(self, since_zxid: int) -> list[Request[bool]]:
        """The SetWatches that arm them all again."""
        bodies = []
        for position, watches in enumerate((self.data, self.existence, self.children)):
            for chunk in chunks(list(watches), SET_WATCHES_BYTES):
                lists: list[Sequence[str]] = [(), (), ()]
                lists[position] = chunk
                bodies.append(jute.set_watches_request(since_zxid, *lists))
        return [Request(jute.SET_WATCHES, body, jute.read_nothing) for body in bodies]


Arming: TypeAlias = Callable[[Watches, object], None]
"""What a read's answer does to the watches."""


def arming_data(path: str) -> Arming:
    def arm(watches: Watches, result: object) -> None:
        if not isinstance(result, Failure):
            watches.data[path] = None

    return arm


def arming_existence(path: str) -> Arming:
    def arm(watches: Watches, result: object) -> None:
        if result is Failure.NO_NODE:
            watches.existence[path] = None
        elif not isinstance(result, Failure):
            watches.data[path] = None

    return arm


def arming_children(path: str) -> Arming:
    def arm(watches: Watches, result: object) -> None:
        if not isinstance(result, Failure):
            watches.children[path] = None

    return arm


class KazooLink:
    """kazoo's client of one session. `start`, `send` and `close` are the loop's; the rest happens in the connection
    thread."""

    def __init__(self, hosts: str, timeout_ms: int, session: LoopSide, crossing: Crossing) -> None:
        self.watches = Watches()
        self.credentials = (0, b"")
        self.granted_timeout_ms = timeout_ms
        self._session = session
        self._crossing = crossing
        self._suspended = False
        self._closing = False
        self._cuts = 0
        self._arming_since: int | None = None
        """The zxid as of which watches are being armed again, until the server has done so for all."""
        self._client = KazooClient(
            hosts=hosts,
            timeout=timeout_ms / 1000,
            handler=_Handler(self._thread_ended),
            connection_retry=dict(_RECONNECT),
        )
        self._connection = _Connection(self._client, self._granted, self._watch_event, self._is_late)
        self._client._connection = self._connection
        self._client.add_listener(self._state_changed)

    # ------------------------------------------------------------------ from the loop

    def start(self) -> None:
        self._client.start_async()

    def send(
        self,
        request: Request[Any],
        future: asyncio.Future[Reply],
        arming: Arming | None,
        watched: Sequence[str],
        cuts: int,
    ) -> None:
        """`cuts`: how many SessionSuspended the loop has heard. What is under way at the next one has no other
        answer."""
        self._put(request, _Answer(self, future, arming, watched, cuts))

    def close(self) -> None:
        if self._client._stopped.is_set():
            return
        self._closing = True
        self._client._stopped.set()
        self._put(CloseInstance, None)
        if not self._client._live.is_set():
            self._connection.abandon()

    # ------------------------------------------------------------------ in the connection thread

    def answered(self, future: asyncio.Future[Reply], result: object) -> None:
        self._crossing.put(self._session.answered, future, (result, self._client.last_zxid))

    def suspended(self) -> None:
        """Told by the first answer that is lost, or else by kazoo: so it comes before every UNKNOWN of this cut."""
        if not self._suspended and not self._closing:
            self._suspended = True
            self._cuts += 1
            self._crossing.put(self._session.notified, SessionSuspended())

    def arm(self, paths: Sequence[str], answer: _Armed) -> None:
        """Arm data watches of znodes that were read by the answer that is being handled."""
        self.watches.data.update(dict.fromkeys(paths))
        request = Request(
            jute.SET_WATCHES, jute.set_watches_request(self._client.last_zxid, paths, (), ()), jute.read_nothing
        )
        self._put(request, answer)

    def _state_changed(self, state: str) -> None:
        if self._closing:
            return
        if state == KazooState.SUSPENDED:
            self.suspended()
        elif state == KazooState.LOST:
            # Without this kazoo would go on and open a session of its own.
            self._client._stopped.set()
            self._crossing.put(self._session.notified, SessionExpired())
        elif self._suspended:
            self._suspended = False
            self._arm_again()
            self._crossing.put(self._session.notified, SessionResumed())
        else:
            self.credentials = self._client.client_id
            self._crossing.put(self._session.opened)

    def _arm_again(self) -> None:
        """In front of everything that waits to be sent, so that no answer overtakes the news of a change it reflects.

        The answer to one SetWatches moves the last zxid seen beyond changes that the next has yet to report: should the
        connection be lost between the two, all are armed as of the zxid before.
        """
        since_zxid = self._client.last_zxid if self._arming_since is None else self._arming_since
        requests = self.watches.requests(since_zxid)
        self._arming_since = since_zxid if requests else None
        last = _ArmedAgain(self)
        self._client._queue.extendleft(
            (request, None if number else last) for number, request in enumerate(reversed(requests))
        )
        self._connection.wake()

    def armed_again(self) -> None:
        self._arming_since = None

    def _is_late(self, answer: object) -> bool:
        return isinstance(answer, _Answer | _Armed) and answer.cuts != self._cuts

    def _put(self, request: Any, answer: _Answer | _Armed | None) -> None:
        self._client._queue.append((request, answer))
        self._connection.wake()

    def _watch_event(self, path: str, event_type: int) -> None:
        kind = _WATCH_KINDS.get(event_type)
        if kind is not None and self.watches.fire(path, kind) and not self._closing:
            self._crossing.put(self._session.watch_fired, path, kind)

    def _granted(self, timeout_ms: int) -> None:
        self.granted_timeout_ms = timeout_ms

    def _thread_ended(self) -> None:
        self._client.close()
        self._crossing.put(self._session.thread_ended)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, telling the granted timeout and handing over watch events as they are."""

    def __init__(
        self,
        client: Any,
        granted: Callable[[int], None],
        watch_event: Callable[[str, int], None],
        is_late: Callable[[object], bool],
    ) -> None:
        super().__init__(client, client._conn_retry.copy(), logger=client.logger)
        self._granted = granted
        self._watch_event = watch_event
        self._is_late = is_late
        self._awake = False
        self._heard_at = 0.0

    def wake(self) -> None:
        """Make kazoo's `select` return. From either thread; the pipe is gone where the connection thread has ended."""
        pipe = self._write_sock
        if pipe is not None and not self._awake:
            self._awake = True
            with contextlib.suppress(OSError):
                pipe.send(b"\0")

    def abandon(self) -> None:
        """Wait no longer for a server to answer the connect request."""
        connecting = self._socket
        if connecting is not None:
            with contextlib.suppress(OSError):
                connecting.shutdown(socket.SHUT_RDWR)

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        if isinstance(request, Connect):
            # A server accepts connections while it starts, and never answers those that came too early: there must be
            # time for another try before the session is over, which kazoo and Java's client do not leave with a single
            # server.
            timeout = min(timeout, self.client._session_timeout / 1000 / CONNECT_TRIES)
        answer = super()._invoke(timeout, request, xid)
        self._heard_at = time.monotonic()
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self._granted(answer[0].time_out)
        return answer

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        self._heard_at = time.monotonic()
        return response

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        if self.client._pending and time.monotonic() - self._heard_at > read_timeout:
            raise ConnectionDropped(f"no answer within {read_timeout:.1f} s")
        queue = self.client._queue
        while queue and self._is_late(queue[0][1]):
            queue.popleft()
        super()._send_request(read_timeout, connect_timeout)
        # It has taken the byte. Cleared before looking: what is put from here on either is seen below or wakes by
        # itself.
        self._awake = False
        if queue:
            self.wake()

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self._watch_event(event.path, event.type)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's handler without its worker threads; it tells when the connection thread has ended."""

    def __init__(self, thread_ended: Callable[[], None]) -> None:
        super().__init__()
        self._thread_ended = thread_ended

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def spawn(self, function: Callable[..., None], *args: Any, **kwargs: Any) -> threading.Thread:
        def run() -> None:
            try:
                function(*args, **kwargs)
            finally:
                self._thread_ended()

        thread = threading.Thread(target=run, name="zookeeper-connection", daemon=True)
        thread.start()
        return thread

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], _: Sequence[Any], timeout: float | None = None
    ) -> Any:
        poller = select.poll()
        sockets = {}
        for waiting, events in [(reader, select.POLLIN) for reader in readers] + [
            (writer, select.POLLOUT) for writer in writers
        ]:
            sockets[waiting.fileno()] = waiting
            poller.register(waiting, events)
        ready = [
            sockets[descriptor] for descriptor, _ in poller.poll(None if timeout is None else math.ceil(timeout * 1000))
        ]
        return [reader for reader in readers if reader in ready], [writer for writer in writers if writer in ready], []


def chunks(paths: Sequence[str], max_bytes: int) -> Iterator[Sequence[str]]:
    """Neighbours that fit into one MultiRead, by number and by size."""
    start = size = 0
    for at, path in enumerate(paths):
        added = len(path.encode()) + 16
        if at > start and (size + added > max_bytes or at - start == MULTI_READ_PATHS):
            yield paths[start:at]
            start, size = at, 0
        size += added
    if paths:
        yield paths[start:]
