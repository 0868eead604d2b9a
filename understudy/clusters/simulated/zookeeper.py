"""One ZooKeeper server in virtual time: sessions, watches, transactions, and connections that can break.

It makes the guarantees of a real ensemble and no others (Z1-Z5). Writes have one order and one zxid counter. Sessions
expire by the server's clock, in buckets of a tick, in one transaction that deletes all their ephemeral znodes; a client
is notified only when it reaches the server again. Connections are reliable and ordered, as TCP's are. When one breaks,
its client cannot tell which of its unanswered requests were applied: how many still arrive is drawn from the seed, and
none arrives once a newer connection has been attached to the session.

`transactions` is the history of the znodes that the checkers read. The client's side is `zookeeper_client`.
"""

from __future__ import annotations

import contextvars
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, TypeVar, cast

from understudy.checks.history import OpKind, ZnodeTransaction
from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.simulated.znode_tree import Applied, Refusal, Touched, ZnodeTree
from understudy.clusters.simulated.zookeeper_connection import Deliver, Link, ServerConnection, Session
from understudy.foundation.zk.client import (
    Children,
    Create,
    Delete,
    Failure,
    MultiFailed,
    MultiOk,
    Op,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
)

_T = TypeVar("_T")

FIRST_SESSION_ID = 0x1000_0000_0000_0001

Reply: TypeAlias = Callable[[_T, int], None]
"""Function of the client for the answer to a request and the server's last zxid."""


@dataclass(slots=True)
class LostAnswer:
    """A fault: the node's connection breaks at its next write to a matching path, before the answer is sent."""

    node: str
    path: str
    """The write must contain an operation whose path contains this string."""
    applied: bool
    """Whether the write is applied before the connection breaks."""


class SimulatedZooKeeper:
    """The server.

    Args:
        random: draws latencies, and the writes whose connections break.
        tick_ms: sessions expire in buckets of this size; their timeouts are between 2 and 20 of them.
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
        """The context of the server, which belongs to no process: requests of a killed broker still arrive."""
        self.transactions: list[ZnodeTransaction] = []
        self.tree = ZnodeTree()
        self.zxid = 0
        self.unknown_probability = 0.0
        """The probability that a write breaks its connection, before or after it is applied."""
        self.lost_answers: list[LostAnswer] = []
        self.reachable = True
        """Whether the ensemble runs; otherwise no node can open a connection."""
        self.slow_ms = 0.0
        """Milliseconds by which each packet to a client is delayed."""
        self.waiting: deque[Callable[[], None]] | None = None
        """The requests that have arrived since the server was paused; None if it is not."""
        self._missed_events: list[str] = []
        self._random = random
        self._tick_ms = tick_ms
        self._wall_ms = wall_ms if wall_ms is not None else self._now_ms
        self._sessions: dict[int, Session] = {}
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
        """The link of `node`, which is created by the first call."""
        if node not in self._links:
            self._links[node] = Link(
                node,
                latency_ms=0.1 + 2 * self._random.random(),
                random=random.Random(self._random.getrandbits(64)),
            )
        return self._links[node]

    def hold(self, node: str, *, requests: bool = True, answers: bool = True) -> None:
        """Hold the packets of one direction or both until `heal`."""
        link = self.link(node)
        link.requests_held |= requests
        link.answers_held |= answers

    def cut(self, node: str, *, arriving: int | None = None) -> None:
        """Break the node's connections (see `reset`) and refuse new ones until `heal`."""
        self.link(node).refusing = True
        self.reset(node, arriving=arriving)

    def reset(self, node: str, *, arriving: int | None = None) -> None:
        """Break the node's connections; it may connect again at once. See `ServerConnection.reset`."""
        for connection in tuple(self.link(node).connections):
            connection.reset(arriving=arriving)

    def heal(self, node: str) -> None:
        """Accept connections of the node again, and send the held packets."""
        link = self.link(node)
        if link.holds_next_event:
            self._missed_events.append(node)
        link.refusing = link.requests_held = link.answers_held = link.holds_next_event = False
        for connection in tuple(link.connections):
            connection.flush()

    def stop(self) -> None:
        """Stop the ensemble: break all connections, refuse new ones, and expire no session."""
        self.reachable = False
        for node in self._links:
            self.reset(node, arriving=0)

    def start(self) -> None:
        """Start the ensemble again. Every session has its full timeout from now on, as after a leader election."""
        self.reachable = True
        for session in self._sessions.values():
            self._touch(session)

    def pause(self) -> None:
        """Pause the server's process: connections stay, nothing is answered, and no session expires."""
        if self.waiting is None:
            self.waiting = deque()

    def resume(self) -> None:
        """Resume the server, and serve waiting requests. Sessions may expire again. Harmless if it is not paused."""
        waiting, self.waiting = self.waiting, None
        for arrive in waiting or ():
            arrive()

    def missed_events(self) -> list[str]:
        """The nodes for which an event had to be held, but none has come."""
        return [*self._missed_events, *(link.node for link in self._links.values() if link.holds_next_event)]

    def expire(self, session_id: int) -> None:
        """End a session as if it had timed out. Harmless if it has ended."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)

    def operate(self, ops: Sequence[Op]) -> bool:
        """Apply a transaction as an operator with a ZooKeeper shell does; return whether it was applied."""
        return not isinstance(self._apply(0, ops), Refusal)

    @property
    def live_sessions(self) -> tuple[int, ...]:
        return tuple(sorted(self._sessions))

    # ------------------------------------------------------------------ connections and sessions

    def open(self, link: Link, process: Process | None, ended: Deliver) -> ServerConnection | None:
        """Open a connection over `link`; None if it is refused."""
        if link.refusing or not self.reachable:
            return None
        return ServerConnection(self, link, process, ended)

    def forget(self, connection: ServerConnection) -> None:
        """Detach a closed connection from its session."""
        self._deliver_watch.pop(connection, None)
        if connection.session is not None and connection.session.connection is connection:
            connection.session.connection = None

    def attach(
        self,
        connection: ServerConnection,
        session_id: int | None,
        timeout_ms: int,
        attached: Callable[[int, int], None],
        expired: Deliver,
        watch: Callable[[WatchFired], None],
    ) -> None:
        """Serve a connect request: open a session (`session_id` None), or attach the connection to an existing one.

        Requests that arrive later on an older connection of the session are not applied.

        Args:
            attached: called at the client with the session's id and timeout.
            expired: called at the client if there is no such session any more.
            watch: called at the client for each watch that fires.
        """
        if session_id is None:
            granted = min(max(timeout_ms, 2 * self._tick_ms), 20 * self._tick_ms)
            session = Session(self._next_session_id, granted)
            self._next_session_id += 1
            self._sessions[session.session_id] = session
            self.zxid += 1
        else:
            known = self._sessions.get(session_id)
            if known is None:
                connection.answer(expired)
                connection.close_at_server()
                return
            session = known
        if session.connection is not None:
            session.connection.close_at_server()
        session.connection, connection.session = connection, session
        self._deliver_watch[connection] = watch
        self._touch(session)
        connection.answer(lambda: attached(session.session_id, session.timeout_ms))

    def ping(self, connection: ServerConnection, pong: Deliver) -> None:
        if self._serves(connection):
            connection.answer(pong)

    def close_session(self, connection: ServerConnection, closed: Deliver) -> None:
        session = connection.session
        if session is not None and self._serves(connection):
            connection.answer(closed)
            self._end(session)

    def _serves(self, connection: ServerConnection) -> bool:
        """Whether the connection's session exists; if so, the request also extends it."""
        session = connection.session
        if session is None or session.session_id not in self._sessions:
            connection.close_at_server()
            return False
        self._touch(session)
        return True

    def _touch(self, session: Session) -> None:
        """Extend the session by its timeout from now on."""
        tick = self._tick_ms
        session.expires_at_ms = ((self._now_ms() + session.timeout_ms) // tick + 1) * tick
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(tick / 1000, self._tick, context=self.context)

    def _tick(self) -> None:
        now = self._now_ms()
        if self.reachable and self.waiting is None:
            for session in [session for session in self._sessions.values() if session.expires_at_ms <= now]:
                self._end(session)
        self._ticking = bool(self._sessions)
        if self._ticking:
            self.loop.call_later(self._tick_ms / 1000, self._tick, context=self.context)

    def _end(self, session: Session) -> None:
        """Delete all ephemeral znodes of the session in one transaction, then close its connection."""
        del self._sessions[session.session_id]
        ephemerals = [Delete(path) for path in self.tree.ephemerals(session.session_id)]
        outcome = self._apply(session.session_id, ephemerals, closed_session=True)
        assert not isinstance(outcome, Refusal), f"ephemeral znodes could not be removed: {outcome}"
        if session.connection is not None:
            session.connection.close_at_server()

    # ------------------------------------------------------------------ requests

    def get(self, connection: ServerConnection, path: str, watch: bool, reply: Reply[ZNodeData | Failure]) -> None:
        if self._serves(connection):
            result = self.tree.get(path)
            if watch and not isinstance(result, Failure):
                self._data_watches.setdefault(path, {})[connection] = None
            connection.answer(partial(reply, result, self.zxid))

    def exists(self, connection: ServerConnection, path: str, watch: bool, reply: Reply[Stat | Failure]) -> None:
        if self._serves(connection):
            result = self.tree.exists(path)
            if watch and result is not Failure.BAD_ARGUMENTS:
                self._data_watches.setdefault(path, {})[connection] = None
            connection.answer(partial(reply, result, self.zxid))

    def children(self, connection: ServerConnection, path: str, watch: bool, reply: Reply[Children | Failure]) -> None:
        if self._serves(connection):
            result = self.tree.children(path)
            if watch and not isinstance(result, Failure):
                self._child_watches.setdefault(path, {})[connection] = None
            connection.answer(partial(reply, result, self.zxid))

    def get_many(
        self, connection: ServerConnection, paths: Sequence[str], reply: Reply[list[ZNodeData | Failure]]
    ) -> None:
        if self._serves(connection):
            connection.answer(partial(reply, [self.tree.get(path) for path in paths], self.zxid))

    def multi(self, connection: ServerConnection, ops: Sequence[Op], reply: Reply[MultiOk | MultiFailed]) -> None:
        """Serve one transaction."""
        if not self._serves(connection):
            return
        breaks = self._breaks_connection(connection, ops)
        if breaks == "before":
            connection.reset(arriving=0)
            return
        outcome = self._apply(cast("Session", connection.session).session_id, ops)
        if isinstance(outcome, Refusal):
            answer: MultiOk | MultiFailed = MultiFailed(outcome.position, outcome.failure)
        else:
            answer = MultiOk(tuple(applied.result for applied in outcome), self.zxid)
        if breaks == "after":
            connection.reset(arriving=0)
        else:
            connection.answer(partial(reply, answer, self.zxid), after_ms=self._random.random())

    def _breaks_connection(self, connection: ServerConnection, ops: Sequence[Op]) -> Literal["before", "after"] | None:
        """Return whether a fault breaks the connection before or after this write is applied; None if no fault does."""
        for rule in self.lost_answers:
            if rule.node == connection.link.node and any(rule.path in op.path for op in ops):
                self.lost_answers.remove(rule)
                return "after" if rule.applied else "before"
        if self.unknown_probability and self._random.random() < self.unknown_probability:
            return "after" if self._random.random() < 0.5 else "before"
        return None

    def _apply(self, session_id: int, ops: Sequence[Op], *, closed_session: bool = False) -> list[Applied] | Refusal:
        """Apply a transaction, note it, and fire watches. A failed one also takes a zxid, as ZooKeeper's error
        transactions do."""
        self.zxid += 1
        outcome = self.tree.transact(ops, zxid=self.zxid, session_id=session_id, wall_ms=self._wall_ms())
        if not isinstance(outcome, Refusal):
            noted = tuple(applied.op for applied in outcome)
            if closed_session or any(op.kind is not OpKind.CHECK for op in noted):
                transaction = ZnodeTransaction(self.zxid, self._wall_ms(), session_id, noted, closed_session)
                self.transactions.append(transaction)
            self._fire([touched for applied in outcome for touched in applied.touched])
        return outcome

    # ------------------------------------------------------------------ watches

    def set_watches(
        self,
        connection: ServerConnection,
        seen_zxid: int,
        data: Sequence[str],
        absent: Sequence[str],
        children: Sequence[str],
    ) -> None:
        """Set a client's watches after a reconnect; fire those whose znode has changed (`DataTree.setWatches`)."""
        if not self._serves(connection):
            return
        for path in data:
            stat = self.tree.exists(path)
            if isinstance(stat, Failure):
                self._notify(connection, WatchFired(path, WatchKind.DELETED))
            elif stat.mzxid > seen_zxid:
                self._notify(connection, WatchFired(path, WatchKind.CHANGED))
            else:
                self._data_watches.setdefault(path, {})[connection] = None
        for path in absent:
            if isinstance(self.tree.exists(path), Failure):
                self._data_watches.setdefault(path, {})[connection] = None
            else:
                self._notify(connection, WatchFired(path, WatchKind.CREATED))
        for path in children:
            changed_at = self.tree.children_changed_at(path)
            if changed_at is None:
                self._notify(connection, WatchFired(path, WatchKind.DELETED))
            elif changed_at > seen_zxid:
                self._notify(connection, WatchFired(path, WatchKind.CHILDREN))
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
                self._notify(connection, WatchFired(path, kind))

    def _notify(self, connection: ServerConnection, fired: WatchFired) -> None:
        deliver = self._deliver_watch.get(connection)
        if deliver is not None and connection.link.holds_next_event:
            connection.link.holds_next_event = False
            connection.link.answers_held = True
        if deliver is not None:
            connection.answer(lambda: deliver(fired))
