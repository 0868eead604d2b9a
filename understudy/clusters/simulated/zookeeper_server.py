"""One server of the simulated ZooKeeper: its znodes, its watches, and the requests on its connections.

Reads are answered from the server's own znodes, which are behind while commits of the leader are under way to it.
Writes, and sessions that are opened, continued or closed, go to the leader (`zookeeper_quorum`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from understudy.clusters.simulated.znode_tree import Refusal, Touched, ZnodeTree
from understudy.clusters.simulated.zookeeper_connection import Deliver, ServerConnection, Session
from understudy.clusters.simulated.zookeeper_quorum import Leadership, Outcome, Peering, Proposal, ProposalKind
from understudy.foundation.zk.client import (
    Children,
    Failure,
    MultiFailed,
    MultiOk,
    Op,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
)

if TYPE_CHECKING:
    from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper

_T = TypeVar("_T")

Reply: TypeAlias = Callable[[_T, int], None]
"""Function of the client for the answer to a request and the server's last zxid."""


class ZooKeeperServer:
    """A server.

    Args:
        number: its id.
        tree: its znodes.
    """

    def __init__(self, zookeeper: SimulatedZooKeeper, number: int, tree: ZnodeTree) -> None:
        self.loop = zookeeper.loop
        self.context = zookeeper.context
        self.number = number
        self.zxid = 0
        """The zxid of the last transaction that it has applied."""
        self.is_up = True
        self.waiting: deque[Callable[[], None]] | None = None
        """What has arrived since the server was paused; None if it is not."""
        self.slow_ms = 0.0
        """Milliseconds by which each packet to a client is delayed."""
        self.log: list[Proposal] = []
        """The proposals that it has written to its disk; the first `applied` of them are committed and applied."""
        self.applied = 0
        self.leadership: Leadership | None = None
        """What it leads, if it does."""
        self.peering: Peering | None = None
        """Its connection to its leader, if it follows one."""
        self.touched: dict[Session, None] = {}
        """The sessions that it has served since the leader's last ping."""
        self._zookeeper = zookeeper
        self.tree = tree
        self._data_watches: dict[str, dict[ServerConnection, None]] = {}
        self._child_watches: dict[str, dict[ServerConnection, None]] = {}
        self._deliver_watch: dict[ServerConnection, Callable[[WatchFired], None]] = {}

    @property
    def is_able(self) -> bool:
        """Whether its process runs and is not paused."""
        return self.is_up and self.waiting is None

    @property
    def is_serving(self) -> bool:
        """Whether it leads or follows, or has not noticed yet that it no longer does; clients can connect to it."""
        return self.is_up and (self.leadership is not None or self.peering is not None)

    @property
    def last_logged_zxid(self) -> int:
        return self.log[-1].zxid if self.log else self.zxid

    # ------------------------------------------------------------------ the ensemble

    def _propose(self, proposal: Proposal) -> None:
        self._at_leader(lambda leadership: leadership.propose(proposal))

    def _at_leader(self, request: Callable[[Leadership], None]) -> None:
        """Send a request to the leader; it is lost if it does not arrive there while this server follows it."""
        if self.leadership is not None:
            request(self.leadership)
        elif self.peering is not None:
            self.peering.to_leader.send(partial(request, self.peering.leadership))

    def apply_up_to(self, count: int) -> None:
        """Apply the first `count` proposals of the log."""
        while self.applied < count:
            self.apply_next()

    def apply_next(self) -> None:
        """Apply the next committed proposal of the log, fire watches, and answer the client that has requested it."""
        proposal = self.log[self.applied]
        self.applied += 1
        self.zxid = proposal.zxid
        outcome = self._zookeeper.apply(proposal, self.tree)
        done = None
        if self._is_requested_here(proposal):
            done, proposal.done = proposal.done, None
        if proposal.kind is ProposalKind.CLOSE and done is not None:
            done(outcome)
        if not isinstance(outcome, Refusal):
            self._fire([touched for applied in outcome for touched in applied.touched])
        if proposal.kind is ProposalKind.CLOSE:
            connection = proposal.session.connection if proposal.session is not None else None
            if connection is not None and connection.server is self:
                connection.close_at_server()
        elif done is not None:
            done(outcome)

    def _is_requested_here(self, proposal: Proposal) -> bool:
        connection = proposal.connection
        if connection is None:
            return self.leadership is not None
        return connection.server is self and connection.server_open

    # ------------------------------------------------------------------ connections and sessions

    def close_connections(self) -> None:
        """Close all connections of clients, as a server does that has lost its quorum."""
        self.touched.clear()
        for link in self._zookeeper.links_to(self):
            for connection in tuple(link.connections):
                connection.close_at_server()

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
        seen_zxid: int,
        attached: Callable[[int, int], None],
        expired: Deliver,
        watch: Callable[[WatchFired], None],
    ) -> None:
        """Serve a connect request: open a session (`session_id` None), or attach the connection to an existing one.

        Requests that arrive later on an older connection of the session are not applied.

        Args:
            seen_zxid: the last zxid that the client has seen; a server that is behind it closes the connection.
            attached: called at the client with the session's id and timeout.
            expired: called at the client if there is no such session any more.
            watch: called at the client for each watch that fires.
        """

        def serve(session: Session) -> None:
            connection.session = session
            self._deliver_watch[connection] = watch
            connection.answer(lambda: attached(session.session_id, session.timeout_ms))

        def answer(session: Session | None) -> None:
            if not connection.server_open:
                return
            if session is None:
                connection.answer(expired)
                connection.close_at_server()
            else:
                serve(session)

        def ask(leadership: Leadership, known_id: int) -> None:
            session = leadership.attach(known_id, connection)
            if leadership.server is self:
                answer(session)
            elif self.peering is not None:
                self.peering.to_follower.send(partial(answer, session))

        if seen_zxid > self.zxid:
            connection.close_at_server()
        elif session_id is None:
            session = self._zookeeper.new_session(timeout_ms)
            session.connection = connection
            opening = Proposal(ProposalKind.OPEN, session, connection=connection, done=lambda _: serve(session))
            self._propose(opening)
        else:
            self._at_leader(partial(ask, known_id=session_id))

    def ping(self, connection: ServerConnection, pong: Deliver) -> None:
        if self._serves(connection):
            connection.answer(pong)

    def close_session(self, connection: ServerConnection, closed: Deliver) -> None:
        if self._serves(connection):
            proposal = Proposal(
                ProposalKind.CLOSE, connection.session, connection=connection, done=lambda _: connection.answer(closed)
            )
            self._at_leader(lambda leadership: leadership.close(proposal))

    def _serves(self, connection: ServerConnection) -> bool:
        """Whether the connection has a session; if so, the request also extends it."""
        session = connection.session
        if session is None:
            connection.close_at_server()
            return False
        if self.leadership is not None:
            self.leadership.touch(session)
        else:
            self.touched[session] = None
        return True

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
        breaks = self._zookeeper.breaks_connection(connection.link.node, ops)
        if breaks == "before":
            connection.reset(arriving=0)
            return

        def answer(outcome: Outcome) -> None:
            if isinstance(outcome, Refusal):
                result: MultiOk | MultiFailed = MultiFailed(outcome.position, outcome.failure)
            else:
                result = MultiOk(tuple(applied.result for applied in outcome), self.zxid)
            if breaks == "after":
                connection.reset(arriving=0)
            else:
                connection.answer(partial(reply, result, self.zxid), after_ms=self._zookeeper.random.random())
            connection.end_write()

        connection.begin_write()
        self._propose(Proposal(ProposalKind.WRITE, connection.session, ops, connection, answer))

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
