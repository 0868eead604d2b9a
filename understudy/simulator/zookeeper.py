"""One logical ZooKeeper server in virtual time: sessions, watches, transactions, and connections that break.

Built to be as hard to live with as the real one and no harder (Z1-Z5): writes have one order and one zxid
counter; sessions expire by the server's clock, in buckets of a tick, in one transaction that takes all ephemerals
along; a client learns of it only when it talks to the server again. Connections are TCP: reliable and ordered while
they live. A broken one
tells nothing about the requests that were on it: how many of them still arrive is drawn from the seed, and none once
the session has been attached to a newer connection.

`transactions` is the history of the znodes that the checkers read. The client's half is `zookeeper_client`.
"""

from __future__ import annotations

import contextvars
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from foundation.zk.client import (
    Children,
    Create,
    Failure,
    MultiFailed,
    MultiOk,
    Op,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
)
from understudy.checkers.history import OpKind, ZnodeOp, ZnodeTransaction
from understudy.simulator.loop import Process, SimulatedLoop
from understudy.simulator.znode_tree import Refusal, Touched, ZnodeTree

FIRST_SESSION_ID = 0x1000_0000_0000_0001

Deliver: TypeAlias = Callable[[], None]
"""Something that happens at the client when a packet reaches it."""


@dataclass(slots=True)
class LostAnswer:
    """A rule of an experiment: the connection breaks at the first write that touches `path`, once."""

    node: str
    path: str
    """Part of a path."""
    applied: bool


class Link:
    """The connection path between one node and the server, and the faults injected into it. Outlasts the node's
    incarnations."""

    def __init__(self, node: str, *, latency_ms: float, random: random.Random) -> None:
        self.node = node
        self.latency_ms = latency_ms
        self.random = random
        self.refusing = False
        """New connections are refused."""
        self.requests_held = False
        self.answers_held = False
        self.requests = 0
        """Requests sent so far: what an interruption counts."""
        self.before_request: Callable[[int], None] = _nothing
        self.after_answer: Callable[[int], None] = _nothing
        self.connections: list[ServerConnection] = []

    def delay_s(self) -> float:
        return self.latency_ms * (0.75 + 0.5 * self.random.random()) / 1000


class ServerConnection:
    """One TCP connection, seen from both ends."""

    def __init__(self, server: SimulatedZooKeeper, link: Link, process: Process | None, ended: Deliver) -> None:
        self.link = link
        self.session: _Session | None = None
        self.client_open = True
        self.server_open = True
        self._server = server
        self._loop = server.loop
        self._context = None if process is None else process.context
        self._ended = ended
        self._last_up = self._last_down = 0.0
        self._in_flight = 0
        self._survivors = 0
        self._held_up: deque[Callable[[], None]] = deque()
        self._held_down: deque[Deliver] = deque()
        link.connections.append(self)
        if process is not None:
            process.at_death(self.client_died)

    # ------------------------------------------------------------------ from the client to the server

    def send(self, serve: Callable[[], None]) -> None:
        """`serve` runs at the server when the request arrives there, if it does."""
        if not self.client_open:
            return
        if self.link.requests_held:
            self._held_up.append(serve)
        else:
            self._travel_up(serve)

    def _travel_up(self, serve: Callable[[], None]) -> None:
        self._last_up = max(self._last_up, self._loop.time() + self.link.delay_s())
        self._in_flight += 1
        self._loop.call_at(self._last_up, self._arrive, serve, context=self._server.context)

    def _arrive(self, serve: Callable[[], None]) -> None:
        self._in_flight -= 1
        if self.server_open:
            serve()
        if not self.client_open:
            self._survivors -= 1
            if self._survivors <= 0:
                self.close_at_server()

    # ------------------------------------------------------------------ from the server to the client

    def answer(self, deliver: Deliver, *, after_ms: float = 0.0) -> None:
        if not self.client_open:
            return
        if self.link.answers_held:
            self._held_down.append(deliver)
        else:
            self._travel_down(deliver, after_ms)

    def _travel_down(self, deliver: Deliver, after_ms: float) -> None:
        self._last_down = max(self._last_down, self._loop.time() + after_ms / 1000 + self.link.delay_s())
        self._loop.call_at(self._last_down, self._deliver, deliver, context=self._context)

    def _deliver(self, deliver: Deliver) -> None:
        if self.client_open:
            deliver()

    # ------------------------------------------------------------------ its end

    def close_at_server(self) -> None:
        """The server closes its end; the client notices once everything sent before has reached it."""
        if self.server_open:
            self.server_open = False
            self._server.forget(self)
            self.answer(self._ended)
            self._forget_when_over()

    def abandon(self) -> None:
        """The client gives up: answers are lost, and of its requests under way a drawn number still arrives."""
        if self.client_open:
            self._leave(self.link.random.randint(0, self._in_flight + len(self._held_up)))

    def client_died(self) -> None:
        """The kernel of a killed process delivers what it had been handed, and closes the connection."""
        if self.client_open:
            self._leave(self._in_flight + len(self._held_up))

    def reset(self, *, arriving: int | None = None) -> None:
        """Break it now; the client notices at once. `arriving` is how many of its requests still arrive; None:
        drawn."""
        if self.client_open:
            self._leave(
                self.link.random.randint(0, self._in_flight + len(self._held_up)) if arriving is None else arriving
            )
            self._loop.call_soon(self._ended, context=self._context)

    def _leave(self, survivors: int) -> None:
        self.client_open = False
        self._survivors = survivors
        if survivors == 0:
            self.close_at_server()
        self._forget_when_over()

    def _forget_when_over(self) -> None:
        """Until both ends are closed something may be held on the way, and is flushed when the link heals."""
        if not self.client_open and not self.server_open and self in self.link.connections:
            self.link.connections.remove(self)

    def flush(self) -> None:
        """The way is free again: what was held travels on, even if the client has gone meanwhile (old bytes come
        late)."""
        held_up, self._held_up = self._held_up, deque()
        for serve in held_up:
            self._travel_up(serve)
        held_down, self._held_down = self._held_down, deque()
        for deliver in held_down:
            self._travel_down(deliver, 0.0)


@dataclass(slots=True, eq=False)
class _Session:
    session_id: int
    timeout_ms: int
    expires_at_ms: float = 0.0
    connection: ServerConnection | None = None


class SimulatedZooKeeper:
    """The server.

    Args:
        random: draws latencies and unknown outcomes.
        tick_ms: sessions expire in buckets of this size, and last at least two and at most twenty of them.
        wall_ms: the server's wall clock, for `transactions` and the time a znode was created.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        random: random.Random,
        tick_ms: int = 500,
        wall_ms: Callable[[], float] | None = None,
    ) -> None:
        self.loop = loop
        self.context = contextvars.Context()
        """The server belongs to no process: what a broker has sent arrives even if that broker is dead by then."""
        self.transactions: list[ZnodeTransaction] = []
        self.tree = ZnodeTree()
        self.zxid = 0
        self.unknown_probability = 0.0
        """How often a write loses its connection, before or after it was applied."""
        self.lost_answers: list[LostAnswer] = []
        self.reachable = True
        """False: no node can open a connection (the ensemble is down)."""
        self._random = random
        self._tick_ms = tick_ms
        self._wall_ms = wall_ms if wall_ms is not None else self._now_ms
        self._sessions: dict[int, _Session] = {}
        self._next_session_id = FIRST_SESSION_ID
        self._links: dict[str, Link] = {}
        self._data_watches: dict[str, dict[ServerConnection, None]] = {}
        self._child_watches: dict[str, dict[ServerConnection, None]] = {}
        self._deliver_watch: dict[ServerConnection, Callable[[WatchFired], None]] = {}
        self._ticking = False
        for path in ("/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
            self.tree.transact([Create(path)], zxid=0, session_id=0)

    def _now_ms(self) -> float:
        return self.loop.time() * 1000

    # ------------------------------------------------------------------ injected faults

    def link(self, node: str) -> Link:
        """The link of `node`, made at first mention."""
        if node not in self._links:
            self._links[node] = Link(
                node,
                latency_ms=0.1 + 2 * self._random.random(),
                random=random.Random(self._random.getrandbits(64)),
            )
        return self._links[node]

    def hold(self, node: str, *, requests: bool = True, answers: bool = True) -> None:
        """Nothing gets through any more, in one direction or both: it waits on the way until `heal`."""
        link = self.link(node)
        link.requests_held |= requests
        link.answers_held |= answers

    def cut(self, node: str, *, arriving: int | None = None) -> None:
        """Break the node's connections (see `reset`) and refuse new ones until `heal`."""
        self.link(node).refusing = True
        self.reset(node, arriving=arriving)

    def reset(self, node: str, *, arriving: int | None = None) -> None:
        """Break the node's connections; it may connect again at once. `arriving`: requests that still get through."""
        for connection in tuple(self.link(node).connections):
            connection.reset(arriving=arriving)

    def heal(self, node: str) -> None:
        link = self.link(node)
        link.refusing = link.requests_held = link.answers_held = False
        for connection in tuple(link.connections):
            connection.flush()

    def go_down(self) -> None:
        """The ensemble loses its quorum: every connection breaks, none can be opened, and no session ends until it is
        back."""
        self.reachable = False
        for node in self._links:
            self.reset(node, arriving=0)

    def come_back(self) -> None:
        """Clients may connect again; every session has its full timeout from now on, as a new leader gives it."""
        self.reachable = True
        for session in self._sessions.values():
            self._touch(session)

    def expire(self, session_id: int) -> None:
        """End a session now, as if it had timed out; harmless when it is over already."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)

    def operate(self, ops: Sequence[Op]) -> bool:
        """One transaction by an operator with a shell, in session 0; whether it was applied."""
        self.zxid += 1
        outcome = self.tree.transact(ops, zxid=self.zxid, session_id=0, wall_ms=self._wall_ms())
        if isinstance(outcome, Refusal):
            return False
        self._record(0, tuple(applied.op for applied in outcome))
        self._fire([touched for applied in outcome for touched in applied.touched])
        return True

    @property
    def live_sessions(self) -> tuple[int, ...]:
        return tuple(sorted(self._sessions))

    # ------------------------------------------------------------------ connections and sessions

    def open(self, link: Link, process: Process | None, ended: Deliver) -> ServerConnection | None:
        """A new connection over `link`, or None when it is refused."""
        if link.refusing or not self.reachable:
            return None
        return ServerConnection(self, link, process, ended)

    def forget(self, connection: ServerConnection) -> None:
        self._deliver_watch.pop(connection, None)
        if connection.session is not None and connection.session.connection is connection:
            connection.session.connection = None

    def attach(
        self,
        connection: ServerConnection,
        session_id: int | None,
        timeout_ms: int,
        welcome: Callable[[int, int], None],
        refuse: Deliver,
        watch: Callable[[WatchFired], None],
    ) -> None:
        """Serve a connect request: a new session (`session_id` None) or the continuation of one.

        `welcome` receives the session's id and timeout; `refuse` means that the session is over. From here on
        nothing that
        an older connection of the session still carries is applied.
        """
        if session_id is None:
            granted = min(max(timeout_ms, 2 * self._tick_ms), 20 * self._tick_ms)
            session = _Session(self._next_session_id, granted)
            self._next_session_id += 1
            self._sessions[session.session_id] = session
            self.zxid += 1
        else:
            known = self._sessions.get(session_id)
            if known is None:
                connection.answer(refuse)
                connection.close_at_server()
                return
            session = known
        if session.connection is not None:
            session.connection.close_at_server()
        session.connection, connection.session = connection, session
        self._deliver_watch[connection] = watch
        self._touch(session)
        connection.answer(lambda: welcome(session.session_id, session.timeout_ms))

    def ping(self, connection: ServerConnection, pong: Deliver) -> None:
        if self._serves(connection):
            connection.answer(pong)

    def close_session(self, connection: ServerConnection, closed: Deliver) -> None:
        session = connection.session
        if session is not None and self._serves(connection):
            connection.answer(closed)
            self._end(session)

    def _serves(self, connection: ServerConnection) -> bool:
        """Whether the connection's session lives; a request is also a sign of life."""
        session = connection.session
        if session is None or session.session_id not in self._sessions:
            connection.close_at_server()
            return False
        self._touch(session)
        return True

    def _touch(self, session: _Session) -> None:
        tick = self._tick_ms
        session.expires_at_ms = ((self._now_ms() + session.timeout_ms) // tick + 1) * tick
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(tick / 1000, self._tick, context=self.context)

    def _tick(self) -> None:
        now = self._now_ms()
        over = (
            [session for session in self._sessions.values() if session.expires_at_ms <= now] if self.reachable else []
        )
        for session in over:
            self._end(session)
        self._ticking = bool(self._sessions)
        if self._ticking:
            self.loop.call_later(self._tick_ms / 1000, self._tick, context=self.context)

    def _end(self, session: _Session) -> None:
        """One transaction that removes all ephemerals of the session; then its connection is closed."""
        del self._sessions[session.session_id]
        self.zxid += 1
        ops: list[ZnodeOp] = []
        touched: list[Touched] = []
        for path in self.tree.ephemerals(session.session_id):
            outcome = self.tree.remove(path, zxid=self.zxid)
            ops.append(outcome.op)
            touched.extend(outcome.touched)
        self._record(session.session_id, tuple(ops), closed_session=True)
        self._fire(touched)
        if session.connection is not None:
            session.connection.close_at_server()

    # ------------------------------------------------------------------ requests

    def get(
        self, connection: ServerConnection, path: str, watch: bool, reply: Callable[[ZNodeData | Failure, int], None]
    ) -> None:
        if self._serves(connection):
            result = self.tree.get(path)
            if watch and not isinstance(result, Failure):
                self._data_watches.setdefault(path, {})[connection] = None
            zxid = self.zxid
            connection.answer(lambda: reply(result, zxid))

    def exists(
        self, connection: ServerConnection, path: str, watch: bool, reply: Callable[[Stat | Failure, int], None]
    ) -> None:
        if self._serves(connection):
            result = self.tree.exists(path)
            if watch and result is not Failure.BAD_ARGUMENTS:
                self._data_watches.setdefault(path, {})[connection] = None
            zxid = self.zxid
            connection.answer(lambda: reply(result, zxid))

    def children(
        self, connection: ServerConnection, path: str, watch: bool, reply: Callable[[Children | Failure, int], None]
    ) -> None:
        if self._serves(connection):
            result = self.tree.children(path)
            if watch and not isinstance(result, Failure):
                self._child_watches.setdefault(path, {})[connection] = None
            zxid = self.zxid
            connection.answer(lambda: reply(result, zxid))

    def get_many(
        self,
        connection: ServerConnection,
        paths: Sequence[str],
        reply: Callable[[list[ZNodeData | Failure], int], None],
    ) -> None:
        if self._serves(connection):
            results = [self.tree.get(path) for path in paths]
            zxid = self.zxid
            connection.answer(lambda: reply(results, zxid))

    def multi(
        self, connection: ServerConnection, ops: Sequence[Op], reply: Callable[[MultiOk | MultiFailed, int], None]
    ) -> None:
        """Serve one transaction. Failed ones take a zxid too, as ZooKeeper's error transactions do."""
        if not self._serves(connection):
            return
        loss = self._loss(connection, ops)
        if loss is False:
            connection.reset(arriving=0)
            return
        session_id = cast("_Session", connection.session).session_id
        self.zxid += 1
        zxid = self.zxid
        outcome = self.tree.transact(ops, zxid=zxid, session_id=session_id, wall_ms=self._wall_ms())
        if isinstance(outcome, Refusal):
            answer: MultiOk | MultiFailed = MultiFailed(outcome.position, outcome.failure)
        else:
            answer = MultiOk(tuple(applied.result for applied in outcome), zxid)
            self._record(session_id, tuple(applied.op for applied in outcome))
            self._fire([touched for applied in outcome for touched in applied.touched])
        if loss:
            connection.reset(arriving=0)
        else:
            connection.answer(lambda: reply(answer, zxid), after_ms=self._random.random())

    def _loss(self, connection: ServerConnection, ops: Sequence[Op]) -> bool | None:
        """Whether this write loses its connection: None: no; False: before it is applied; True: after."""
        for rule in self.lost_answers:
            if rule.node == connection.link.node and any(rule.path in op.path for op in ops):
                self.lost_answers.remove(rule)
                return rule.applied
        if self.unknown_probability and self._random.random() < self.unknown_probability:
            return self._random.random() < 0.5
        return None

    def _record(self, session_id: int, ops: tuple[ZnodeOp, ...], *, closed_session: bool = False) -> None:
        if closed_session or any(op.kind is not OpKind.CHECK for op in ops):
            self.transactions.append(ZnodeTransaction(self.zxid, self._wall_ms(), session_id, ops, closed_session))

    # ------------------------------------------------------------------ watches

    def set_watches(
        self,
        connection: ServerConnection,
        seen_zxid: int,
        data: Sequence[str],
        absent: Sequence[str],
        children: Sequence[str],
    ) -> None:
        """Arm again after a reconnect, and report what has changed since `seen_zxid` (`DataTree.setWatches`)."""
        if not self._serves(connection):
            return
        for path in data:
            stat = self.tree.exists(path)
            if isinstance(stat, Failure):
                self._tell(connection, WatchFired(path, WatchKind.DELETED))
            elif stat.mzxid > seen_zxid:
                self._tell(connection, WatchFired(path, WatchKind.CHANGED))
            else:
                self._data_watches.setdefault(path, {})[connection] = None
        for path in absent:
            if isinstance(self.tree.exists(path), Failure):
                self._data_watches.setdefault(path, {})[connection] = None
            else:
                self._tell(connection, WatchFired(path, WatchKind.CREATED))
        for path in children:
            changed_at = self.tree.children_changed_at(path)
            if changed_at is None:
                self._tell(connection, WatchFired(path, WatchKind.DELETED))
            elif changed_at > seen_zxid:
                self._tell(connection, WatchFired(path, WatchKind.CHILDREN))
            else:
                self._child_watches.setdefault(path, {})[connection] = None

    def _fire(self, touched: Sequence[Touched]) -> None:
        for path, kind in touched:
            watching: dict[ServerConnection, None] = {}
            if kind is not WatchKind.CHILDREN:
                watching |= self._data_watches.pop(path, {})
            if kind in (WatchKind.CHILDREN, WatchKind.DELETED):
                watching |= self._child_watches.pop(path, {})
            for connection in watching:
                self._tell(connection, WatchFired(path, kind))

    def _tell(self, connection: ServerConnection, fired: WatchFired) -> None:
        deliver = self._deliver_watch.get(connection)
        if deliver is not None:
            connection.answer(lambda: deliver(fired))


def _nothing(_: int) -> None:
    """No interruption is planned."""
