"""The client's half of the simulated ZooKeeper: sessions as `foundation.zk.client` promises them.

One `NodeZooKeeper` per incarnation of a node opens sessions; each `SimulatedSession` keeps its connection alive with
pings, gives it up after two thirds of the session timeout without a word, connects again after a drawn delay and arms
its watches anew. Everything here runs as the node's process: a paused node sends no pings and receives nothing, a
killed one is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import TypeVar

from msgspec.structs import replace

from foundation.zk.client import (
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
from understudy.simulator.loop import current_process
from understudy.simulator.zookeeper import Link, ServerConnection, SimulatedZooKeeper

_T = TypeVar("_T")
_ATTEMPT_MS = 1_000.0
_READ_BATCH = 500


class NodeZooKeeper:
    """The ensemble as one node sees it; implements `ZooKeeper`.

    Args:
        node: whose link is used.
        chroot: prefix of every path, such as `/kafka`; created by its user.
    """

    def __init__(
        self,
        server: SimulatedZooKeeper,
        node: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int = 18_000,
        chroot: str = "",
    ) -> None:
        self._server = server
        self._link = server.link(node)
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._chroot = chroot.rstrip("/")

    async def connect(self, listener: Listener) -> ZooKeeperClient:
        session = SimulatedSession(self._server, self._link, listener, self._session_timeout_ms, self._chroot)
        session.start()
        try:
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await session.connected()
        except TimeoutError:
            session.abandon()
            raise ZooKeeperUnreachable(
                f"the simulated ZooKeeper did not answer {self._link.node} within {self._connection_timeout_ms} ms"
            ) from None
        return session


class _State(Enum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    OVER = "over"


class SimulatedSession:
    """A handle on one session; implements `ZooKeeperClient`."""

    def __init__(
        self, server: SimulatedZooKeeper, link: Link, listener: Listener, session_timeout_ms: int, chroot: str
    ) -> None:
        self._server = server
        self._loop = server.loop
        self._link = link
        self._listener = listener
        self._chroot = chroot
        self._state = _State.CONNECTING
        self._session_id: int | None = None
        self._timeout_ms = session_timeout_ms
        self._last_zxid = 0
        self._connection: ServerConnection | None = None
        self._attempt = 0
        self._heard_at = 0.0
        self._settled = asyncio.Event()
        self._pending: dict[asyncio.Future[object], None] = {}
        self._data_watches: dict[str, None] = {}
        self._absent_watches: dict[str, None] = {}
        self._child_watches: dict[str, None] = {}
        self._beating: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ the handle

    @property
    def session_id(self) -> int:
        assert self._session_id is not None, "connect hands out no session that has not been opened"
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._timeout_ms

    @property
    def last_zxid(self) -> int:
        return self._last_zxid

    async def connected(self) -> bool:
        while self._state is _State.CONNECTING:
            await self._settled.wait()
        return self._state is _State.CONNECTED

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | Failure:
        def answered(result: ZNodeData | Failure) -> None:
            if watch and not isinstance(result, Failure):
                self._data_watches[path] = None

        real = self._real(path)
        return await self._ask(lambda connection, reply: self._server.get(connection, real, watch, reply), answered)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        def answered(result: Stat | Failure) -> None:
            if watch and result is not Failure.BAD_ARGUMENTS:
                (self._absent_watches if result is Failure.NO_NODE else self._data_watches)[path] = None

        real = self._real(path)
        return await self._ask(lambda connection, reply: self._server.exists(connection, real, watch, reply), answered)

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        def answered(result: Children | Failure) -> None:
            if watch and not isinstance(result, Failure):
                self._child_watches[path] = None

        real = self._real(path)
        return await self._ask(
            lambda connection, reply: self._server.children(connection, real, watch, reply), answered
        )

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        if watch:
            return list(await asyncio.gather(*(self.get(path, watch=True) for path in paths)))
        results: list[ZNodeData | Failure] = []
        for start in range(0, len(paths), _READ_BATCH):
            results.extend(await self._get_batch([self._real(path) for path in paths[start : start + _READ_BATCH]]))
        return results

    async def _get_batch(self, real: list[str]) -> list[ZNodeData | Failure]:
        answer = await self._ask(lambda connection, reply: self._server.get_many(connection, real, reply), _ignore_many)
        return [answer] * len(real) if isinstance(answer, Failure) else answer

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
        if self._state is _State.OVER:
            return Failure.SESSION_EXPIRED
        if sum(request_bytes(op) for op in ops) > MAX_REQUEST_BYTES:
            return Failure.TOO_LARGE
        real = [replace(op, path=self._real(op.path)) for op in ops]
        answer = await self._ask(lambda connection, reply: self._server.multi(connection, real, reply), _ignore_multi)
        if not self._chroot or not isinstance(answer, MultiOk):
            return answer
        own = [Created(self._own(result.path)) if isinstance(result, Created) else result for result in answer.results]
        return MultiOk(tuple(own), answer.zxid)

    async def close(self) -> None:
        if self._state is _State.OVER:
            return
        connection, was_connected = self._connection, self._state is _State.CONNECTED
        self._state = _State.OVER
        if was_connected and connection is not None:
            closed = self._loop.create_future()
            self._pending[closed] = None
            connection.send(functools.partial(self._server.close_session, connection, lambda: _resolve(closed, None)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_ms / 1000):
                    await closed  # after that long the server has ended the session by itself
        self.abandon()

    # ------------------------------------------------------------------ requests

    def _real(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _own(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"

    async def _ask(
        self,
        serve: Callable[[ServerConnection, Callable[[_T, int], None]], None],
        answered: Callable[[_T], None],
    ) -> _T | Failure:
        """Send a request and wait for its answer; `answered` sees it in the order of the connection."""
        self._link.requests += 1
        number = self._link.requests
        self._link.before_request(number)
        await asyncio.sleep(0)  # where a process that was killed or paused just now stands still
        connection = self._connection
        if self._state is _State.OVER:
            return Failure.SESSION_EXPIRED
        if self._state is not _State.CONNECTED or connection is None:
            return Failure.UNKNOWN
        future: asyncio.Future[object] = self._loop.create_future()
        self._pending[future] = None

        def reply(result: _T, zxid: int) -> None:
            self._pending.pop(future, None)
            self._heard_at = self._loop.time()
            self._last_zxid = max(self._last_zxid, zxid)
            answered(result)
            _resolve(future, result)

        connection.send(lambda: serve(connection, reply))
        result = await future
        self._link.after_answer(number)
        await asyncio.sleep(0)
        return result  # type: ignore[return-value]  # what `reply` or the end of the connection has put there

    # ------------------------------------------------------------------ the connection

    def start(self) -> None:
        """Begin to connect."""
        self._heard_at = self._loop.time()
        self._try_to_connect()

    def _try_to_connect(self) -> None:
        if self._state is not _State.CONNECTING:
            return
        self._attempt += 1
        attempt = self._attempt
        connection = self._server.open(self._link, current_process(), lambda: self._lost(connection))
        self._connection = connection
        if connection is None:
            self._loop.call_later(self._backoff_s(), self._try_to_connect)
            return
        opened = connection
        opened.send(
            lambda: self._server.attach(
                opened,
                self._session_id,
                self._timeout_ms,
                functools.partial(self._welcomed, opened),
                self._expired,
                self._watch_fired,
            )
        )
        self._loop.call_later(_ATTEMPT_MS / 1000, self._attempt_failed, attempt)

    def _backoff_s(self) -> float:
        return 0.02 + 0.2 * self._link.random.random()

    def _attempt_failed(self, attempt: int) -> None:
        if self._state is _State.CONNECTING and attempt == self._attempt and self._connection is not None:
            self._connection.abandon()
            self._try_to_connect()

    def _welcomed(self, connection: ServerConnection, session_id: int, timeout_ms: int) -> None:
        if connection is not self._connection or self._state is not _State.CONNECTING:
            return
        first = self._session_id is None
        self._session_id, self._timeout_ms = session_id, timeout_ms
        self._state = _State.CONNECTED
        self._heard_at = self._loop.time()
        if self._beating is None:
            self._beat()
        if not first:
            watches = [[self._real(path) for path in table] for table in self._watch_tables()]
            if any(watches):
                connection.send(
                    functools.partial(
                        self._server.set_watches, connection, self._last_zxid, watches[0], watches[1], watches[2]
                    )
                )
            self._listener(SessionResumed())
        self._settled.set()

    def _watch_tables(self) -> tuple[dict[str, None], dict[str, None], dict[str, None]]:
        return self._data_watches, self._absent_watches, self._child_watches

    def _beat(self) -> None:
        """A sixth of the timeout has passed: ping after a silence as long, give up after one of two thirds.

        Real clients ping after a third; this one looks only every sixth and would come too late half of the time.
        """
        self._beating = None
        if self._state is _State.OVER:
            return
        if self._state is _State.CONNECTED and self._connection is not None:
            silence_ms = (self._loop.time() - self._heard_at) * 1000
            if silence_ms >= self._timeout_ms * 2 / 3:
                self._connection.abandon()
                self._lost(self._connection)
            elif silence_ms >= self._timeout_ms / 6:
                connection = self._connection
                connection.send(functools.partial(self._server.ping, connection, self._ponged))
        self._beating = self._loop.call_later(self._timeout_ms / 6000, self._beat)

    def _ponged(self) -> None:
        self._heard_at = self._loop.time()

    def _lost(self, connection: ServerConnection | None) -> None:
        """The connection has ended; what was under way has an unknown outcome."""
        if connection is not self._connection:
            return
        if connection is not None:
            connection.abandon()
        self._connection = None
        was_connected = self._state is _State.CONNECTED
        if was_connected:
            self._state = _State.CONNECTING
            self._settled.clear()
            self._say(SessionSuspended())
        self._answer_pending(Failure.UNKNOWN)
        if self._state is _State.CONNECTING:
            self._loop.call_later(self._backoff_s(), self._try_to_connect)

    def _expired(self) -> None:
        if self._state is _State.OVER:
            return
        self._state = _State.OVER
        self._answer_pending(Failure.SESSION_EXPIRED)
        self._settled.set()
        self._listener(SessionExpired())

    def abandon(self) -> None:
        """Let go of the connection without a word; the session lives on until the server's clock ends it."""
        self._state = _State.OVER
        self._settled.set()
        if self._beating is not None:
            self._beating.cancel()
        if self._connection is not None:
            self._connection.abandon()
            self._connection = None
        self._answer_pending(Failure.SESSION_EXPIRED)

    def _answer_pending(self, failure: Failure) -> None:
        pending, self._pending = self._pending, {}
        for future in pending:
            _resolve(future, failure)

    # ------------------------------------------------------------------ watches

    def _watch_fired(self, fired: WatchFired) -> None:
        own = WatchFired(self._own(fired.path), fired.kind)
        if not any(own.path in armed for armed in (self._data_watches, self._absent_watches, self._child_watches)):
            # Both the data and the child watch of a node that ended during a cut are answered; it is reported once.
            return
        if fired.kind is WatchKind.CHILDREN:
            self._child_watches.pop(own.path, None)
        else:
            self._data_watches.pop(own.path, None)
            self._absent_watches.pop(own.path, None)
            if fired.kind is WatchKind.DELETED:
                self._child_watches.pop(own.path, None)
        self._say(own)

    def _say(self, notification: Notification) -> None:
        if self._state is not _State.OVER:
            self._listener(notification)


def _ignore_many(_: list[ZNodeData | Failure]) -> None:
    """No watch is armed by a bulk read."""


def _ignore_multi(_: MultiOk | MultiFailed) -> None:
    """No watch is armed by a write."""


def _resolve(future: asyncio.Future[object], result: object) -> None:
    """Give the waiting task its answer, unless it has stopped waiting."""
    if not future.done():
        future.set_result(result)


_CONFORMS: Callable[[SimulatedSession], ZooKeeperClient] = lambda session: session  # noqa: E731  checked by mypy
_OPENS: Callable[[NodeZooKeeper, Listener], Awaitable[ZooKeeperClient]] = NodeZooKeeper.connect
