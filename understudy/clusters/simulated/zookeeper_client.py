"""The client of the simulated ZooKeeper: sessions with the guarantees of `understudy.foundation.zk.client`.

Each incarnation of a node has a `NodeZooKeeper`, which opens sessions. A `SimulatedSession` sends pings over its
connection, gives it up after two thirds of the session timeout without an answer, connects again after a drawn delay
and sets its watches again. All of it runs in the node's process: while that is paused it sends no pings and receives
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeVar

from msgspec.structs import replace

from understudy.clusters.simulated.loop import current_process, resolve
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_connection import Link, ServerConnection
from understudy.clusters.simulated.zookeeper_server import Reply
from understudy.foundation.zk.client import (
    MAX_REQUEST_BYTES,
    Children,
    Create,
    Created,
    Delete,
    Failure,
    Listener,
    MultiFailed,
    MultiOk,
    Notification,
    Op,
    OpResult,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
    ZooKeeperClient,
    ZooKeeperUnreachable,
    request_bytes,
)

_T = TypeVar("_T")
_ATTEMPT_MS = 1_000.0
_READ_BATCH = 500


class NodeZooKeeper:
    """Opens sessions for one node; implements `ZooKeeper`.

    Args:
        node: the name of the node, whose links to the servers are used.
        servers: the ids of the servers in its connect string; by default all.
        chroot: the prefix of every path, such as `/kafka`; the caller creates it.
    """

    def __init__(
        self,
        zookeeper: SimulatedZooKeeper,
        node: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int = 18_000,
        chroot: str = "",
        servers: Sequence[int] = (),
    ) -> None:
        self._zookeeper = zookeeper
        self._links = zookeeper.links(node, servers)
        self._node = node
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._chroot = chroot.rstrip("/")

    async def connect(self, listener: Listener) -> ZooKeeperClient:
        first = self._zookeeper.link(self._node)
        session = SimulatedSession(first, self._links, listener, self._session_timeout_ms, self._chroot)
        try:
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await session.connected()
        except TimeoutError:
            session.abandon()
            raise ZooKeeperUnreachable(
                f"the simulated ZooKeeper did not answer {self._node} within {self._connection_timeout_ms} ms"
            ) from None
        return session


class _ConnectionState(Enum):
    """The connection state of a session; it stays CLOSED once the session has ended or was abandoned."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSED = "closed"


class SimulatedSession:
    """One session, which begins to connect at once; implements `ZooKeeperClient`.

    It tries the servers of its connect string one after the other, in an order that it draws once.

    Args:
        link: the link to the first server of the ensemble, whose random source and whose hooks it uses.
        links: the links to the servers of its connect string.
    """

    def __init__(
        self, link: Link, links: Sequence[Link], listener: Listener, session_timeout_ms: int, chroot: str
    ) -> None:
        self._loop = link.server.loop
        self._link = link
        self._links = list(links)
        if len(self._links) > 1:
            link.random.shuffle(self._links)
        self._listener = listener
        self._chroot = chroot
        self._state = _ConnectionState.CONNECTING
        self._session_id: int | None = None
        self.session_timeout_ms = session_timeout_ms
        self.last_zxid = 0
        self._connection: ServerConnection | None = None
        self._attempt = 0
        self._last_packet_at = self._loop.time()
        self._not_connecting = asyncio.Event()
        self._pending: dict[asyncio.Future[object], None] = {}
        self._data_watches: dict[str, None] = {}
        self._absent_watches: dict[str, None] = {}
        self._child_watches: dict[str, None] = {}
        self._ping_timer: asyncio.TimerHandle | None = None
        self._try_to_connect()

    # ------------------------------------------------------------------ ZooKeeperClient

    @property
    def session_id(self) -> int:
        assert self._session_id is not None, "connect returns only sessions that have been opened"
        return self._session_id

    async def connected(self) -> bool:
        while self._state is _ConnectionState.CONNECTING:
            await self._not_connecting.wait()
        return self._state is _ConnectionState.CONNECTED

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | Failure:
        def answered(result: ZNodeData | Failure) -> None:
            if watch and not isinstance(result, Failure):
                self._data_watches[path] = None

        full = self._with_chroot(path)
        return await self._request(
            lambda connection, reply: connection.server.get(connection, full, watch, reply), answered
        )

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        def answered(result: Stat | Failure) -> None:
            if watch and result is not Failure.BAD_ARGUMENTS:
                (self._absent_watches if result is Failure.NO_NODE else self._data_watches)[path] = None

        full = self._with_chroot(path)
        return await self._request(
            lambda connection, reply: connection.server.exists(connection, full, watch, reply), answered
        )

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        def answered(result: Children | Failure) -> None:
            if watch and not isinstance(result, Failure):
                self._child_watches[path] = None

        full = self._with_chroot(path)
        return await self._request(
            lambda connection, reply: connection.server.children(connection, full, watch, reply), answered
        )

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        if watch:
            return list(await asyncio.gather(*(self.get(path, watch=True) for path in paths)))
        results: list[ZNodeData | Failure] = []
        for start in range(0, len(paths), _READ_BATCH):
            results.extend(
                await self._get_batch([self._with_chroot(path) for path in paths[start : start + _READ_BATCH]])
            )
        return results

    async def _get_batch(self, full: list[str]) -> list[ZNodeData | Failure]:
        answer: list[ZNodeData | Failure] | Failure = await self._request(
            lambda connection, reply: connection.server.get_many(connection, full, reply)
        )
        return [answer] * len(full) if isinstance(answer, Failure) else answer

    async def write(self, op: Create | SetData | Delete) -> OpResult | Failure:
        outcome = await self.multi([op])
        match outcome:
            case MultiOk(results):
                return results[0]
            case MultiFailed(_, failure):
                return failure
            case failure:
                return failure

    async def multi(self, ops: Sequence[Op]) -> MultiOk | MultiFailed | Failure:
        if self._state is _ConnectionState.CLOSED:
            return Failure.SESSION_EXPIRED
        if sum(request_bytes(op) for op in ops) > MAX_REQUEST_BYTES:
            return Failure.TOO_LARGE
        full = [replace(op, path=self._with_chroot(op.path)) for op in ops]
        answer: MultiOk | MultiFailed | Failure = await self._request(
            lambda connection, reply: connection.server.multi(connection, full, reply)
        )
        if not self._chroot or not isinstance(answer, MultiOk):
            return answer
        own = [
            Created(self._without_chroot(result.path)) if isinstance(result, Created) else result
            for result in answer.results
        ]
        return MultiOk(tuple(own), answer.zxid)

    async def close(self) -> None:
        if self._state is _ConnectionState.CLOSED:
            return
        connection, was_connected = self._connection, self._state is _ConnectionState.CONNECTED
        self._state = _ConnectionState.CLOSED
        if was_connected and connection is not None:
            closed = self._loop.create_future()
            self._pending[closed] = None
            connection.send(
                functools.partial(connection.server.close_session, connection, lambda: resolve(closed, None))
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.session_timeout_ms / 1000):
                    await closed  # after that long the server has ended the session by itself
        self.abandon()

    # ------------------------------------------------------------------ requests

    def _with_chroot(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _without_chroot(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"

    async def _request(
        self,
        serve: Callable[[ServerConnection, Reply[_T]], None],
        answered: Callable[[_T], None] | None = None,
    ) -> _T | Failure:
        """Send a request and wait for its answer.

        Args:
            serve: performs the request at the server, with the function that receives the answer.
            answered: called with the answer when it arrives, in the order of the connection.
        """
        self._link.requests += 1
        number = self._link.requests
        self._link.before_request(number)
        await asyncio.sleep(0)  # a process that `before_request` has killed or paused does not continue
        connection = self._connection
        if self._state is _ConnectionState.CLOSED:
            return Failure.SESSION_EXPIRED
        if self._state is not _ConnectionState.CONNECTED or connection is None:
            return Failure.UNKNOWN
        future: asyncio.Future[object] = self._loop.create_future()
        self._pending[future] = None

        def reply(result: _T, zxid: int) -> None:
            self._pending.pop(future, None)
            self._last_packet_at = self._loop.time()
            self.last_zxid = max(self.last_zxid, zxid)
            if answered is not None:
                answered(result)
            resolve(future, result)

        connection.send(lambda: serve(connection, reply))
        result = await future
        self._link.after_answer(number)
        await asyncio.sleep(0)
        return result  # type: ignore[return-value]  # set by `reply` or `_complete_pending`

    # ------------------------------------------------------------------ the connection

    def _try_to_connect(self) -> None:
        if self._state is not _ConnectionState.CONNECTING:
            return
        self._attempt += 1
        attempt = self._attempt
        self._links.append(link := self._links.pop(0))
        connection = link.open(current_process(), lambda: self._connection_lost(connection))
        self._connection = connection
        if connection is None:
            self._loop.call_later(self._backoff_s(), self._try_to_connect)
            return
        opened = connection
        opened.send(
            lambda: opened.server.attach(
                opened,
                self._session_id,
                self.session_timeout_ms,
                self.last_zxid,
                functools.partial(self._attached, opened),
                self._expired,
                self._watch_fired,
            )
        )
        self._loop.call_later(_ATTEMPT_MS / 1000, self._attempt_failed, attempt)

    def _backoff_s(self) -> float:
        return 0.02 + 0.2 * self._link.random.random()

    def _attempt_failed(self, attempt: int) -> None:
        if self._state is _ConnectionState.CONNECTING and attempt == self._attempt and self._connection is not None:
            self._connection.abandon()
            self._try_to_connect()

    def _attached(self, connection: ServerConnection, session_id: int, timeout_ms: int) -> None:
        if connection is not self._connection or self._state is not _ConnectionState.CONNECTING:
            return
        first = self._session_id is None
        self._session_id, self.session_timeout_ms = session_id, timeout_ms
        self._state = _ConnectionState.CONNECTED
        self._last_packet_at = self._loop.time()
        if self._ping_timer is None:
            self._check_silence()
        if not first:
            watches = [[self._with_chroot(path) for path in table] for table in self._watch_tables()]
            if any(watches):
                connection.send(functools.partial(connection.server.set_watches, connection, self.last_zxid, *watches))
            self._listener(SessionResumed())
        self._not_connecting.set()

    def _watch_tables(self) -> tuple[dict[str, None], dict[str, None], dict[str, None]]:
        return self._data_watches, self._absent_watches, self._child_watches

    def _check_silence(self) -> None:
        """Send a ping or give up the connection, depending on when the last packet arrived; called every sixth of the
        session timeout.

        A ping is sent after a sixth of the timeout without a packet; the connection is given up after two thirds.
        Real clients ping after a third: with a check only every sixth, such a ping could be too late.
        """
        self._ping_timer = None
        if self._state is _ConnectionState.CLOSED:
            return
        if self._state is _ConnectionState.CONNECTED and self._connection is not None:
            silence_ms = (self._loop.time() - self._last_packet_at) * 1000
            if silence_ms >= self.session_timeout_ms * 2 / 3:
                self._connection.abandon()
                self._connection_lost(self._connection)
            elif silence_ms >= self.session_timeout_ms / 6:
                connection = self._connection
                connection.send(functools.partial(connection.server.ping, connection, self._pong_received))
        self._ping_timer = self._loop.call_later(self.session_timeout_ms / 6000, self._check_silence)

    def _pong_received(self) -> None:
        self._last_packet_at = self._loop.time()

    def _connection_lost(self, connection: ServerConnection | None) -> None:
        """Complete the requests without an answer as UNKNOWN, and connect again."""
        if connection is not self._connection:
            return
        if connection is not None:
            connection.abandon()
        self._connection = None
        was_connected = self._state is _ConnectionState.CONNECTED
        if was_connected:
            self._state = _ConnectionState.CONNECTING
            self._not_connecting.clear()
            self._notify_listener(SessionSuspended())
        self._complete_pending(Failure.UNKNOWN)
        if self._state is _ConnectionState.CONNECTING:
            self._loop.call_later(self._backoff_s(), self._try_to_connect)

    def _expired(self) -> None:
        if self._state is _ConnectionState.CLOSED:
            return
        self._state = _ConnectionState.CLOSED
        self._complete_pending(Failure.SESSION_EXPIRED)
        self._not_connecting.set()
        self._listener(SessionExpired())

    def abandon(self) -> None:
        """Close the connection without closing the session, which the server ends by its timeout."""
        self._state = _ConnectionState.CLOSED
        self._not_connecting.set()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        if self._connection is not None:
            self._connection.abandon()
            self._connection = None
        self._complete_pending(Failure.SESSION_EXPIRED)

    def _complete_pending(self, failure: Failure) -> None:
        pending, self._pending = self._pending, {}
        for future in pending:
            resolve(future, failure)

    # ------------------------------------------------------------------ watches

    def _watch_fired(self, fired: WatchFired) -> None:
        own = WatchFired(self._without_chroot(fired.path), fired.kind)
        if not any(own.path in armed for armed in self._watch_tables()):
            # A znode deleted during a cut fires both its data watch and its child watch; the deletion is reported once.
            return
        if fired.kind is WatchKind.CHILDREN:
            self._child_watches.pop(own.path, None)
        else:
            self._data_watches.pop(own.path, None)
            self._absent_watches.pop(own.path, None)
            if fired.kind is WatchKind.DELETED:
                self._child_watches.pop(own.path, None)
        self._notify_listener(own)

    def _notify_listener(self, notification: Notification) -> None:
        if self._state is not _ConnectionState.CLOSED:
            self._listener(notification)
