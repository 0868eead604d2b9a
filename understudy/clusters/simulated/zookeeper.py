"""A ZooKeeper in virtual time: sessions, watches, transactions, and connections that can break.

It is one server, or an ensemble of several (`zookeeper_quorum`), and makes the guarantees of a real one and no others
(Z1-Z5). Writes have one order. Sessions expire by the leader's clock, in buckets of a tick, in one transaction that
deletes all their ephemeral znodes; a client is notified only when it reaches a server that follows the leader.
Connections are reliable and ordered, as TCP's are. When one breaks, its client cannot tell which of its unanswered
requests were applied: how many still arrive is drawn from the seed, and none is applied once a newer connection has
been attached to the session.

`transactions` is the history of the znodes that the checkers read. The client's side is `zookeeper_client`.
"""

from __future__ import annotations

import contextvars
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from understudy.checks.history import OpKind, ZnodeTransaction
from understudy.clusters.simulated.loop import SimulatedLoop
from understudy.clusters.simulated.znode_tree import Refusal, ZnodeTree
from understudy.clusters.simulated.zookeeper_connection import Link, Session
from understudy.clusters.simulated.zookeeper_quorum import Outcome, Proposal, ProposalKind, Quorum
from understudy.clusters.simulated.zookeeper_server import ZooKeeperServer
from understudy.foundation.zk.client import Create, Delete, Op

FIRST_SESSION_ID = 0x1000_0000_0000_0001


@dataclass(slots=True)
class LostAnswer:
    """A fault: the node's connection breaks at its next write to a matching path, before the answer is sent."""

    node: str
    path: str
    """The write must contain an operation whose path contains this string."""
    applied: bool
    """Whether the write is applied before the connection breaks."""


class SimulatedZooKeeper:
    """The servers, from 1, and the links of all nodes to them.

    Args:
        random: draws latencies, the lengths of elections, and the writes whose connections break.
        servers: the number of servers; 1 is a standalone server.
        tick_ms: sessions expire in buckets of this size; their timeouts are between 2 and 20 of them.
        wall_ms: the servers' wall clock, for `transactions` and the time a znode was created.
    """

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        random: random.Random,
        servers: int = 1,
        tick_ms: int = 500,
        wall_ms: Callable[[], float] | None = None,
    ) -> None:
        self.loop = loop
        self.random = random
        self.tick_ms = tick_ms
        self.wall_ms = wall_ms if wall_ms is not None else self._now_ms
        self.context = contextvars.Context()
        """The context of the servers, which belongs to no process: requests of a killed broker still arrive."""
        self.transactions: list[ZnodeTransaction] = []
        self.tree = _new_tree()
        """The znodes after the last committed transaction."""
        self.zxid = 0
        """The zxid of the last committed transaction."""
        self.sessions: dict[int, Session] = {}
        """The sessions after the last committed transaction."""
        self.unknown_probability = 0.0
        """The probability that a write breaks its connection, before or after it is applied."""
        self.lost_answers: list[LostAnswer] = []
        self.servers: Mapping[int, ZooKeeperServer] = {
            number: ZooKeeperServer(self, number, self.tree if servers == 1 else _new_tree())
            for number in range(1, servers + 1)
        }
        self._missed_events: list[str] = []
        self._next_session_id = FIRST_SESSION_ID
        self._links: dict[str, tuple[Link, ...]] = {}
        self._ticking = False
        self.quorum = Quorum(self, tuple(self.servers.values()))

    def _now_ms(self) -> float:
        return self.loop.time() * 1000

    # ------------------------------------------------------------------ faults of links

    def link(self, node: str, server: int = 1) -> Link:
        """The link of `node` to a server; the first call creates its links to all servers."""
        if node not in self._links:
            self._links[node] = tuple(
                Link(
                    node,
                    each,
                    latency_ms=0.1 + 2 * self.random.random(),
                    random=random.Random(self.random.getrandbits(64)),
                )
                for each in self.servers.values()
            )
        return self._links[node][server - 1]

    def links(self, node: str, servers: Sequence[int] = ()) -> list[Link]:
        """The links of `node` to the servers with these ids; to all if there are none."""
        return [self.link(node, number) for number in servers or self.servers]

    def links_to(self, server: ZooKeeperServer) -> list[Link]:
        """The links of all nodes to a server."""
        return [links[server.number - 1] for links in self._links.values()]

    def hold(self, node: str, *, requests: bool = True, answers: bool = True, servers: Sequence[int] = ()) -> None:
        """Hold the packets of one direction or both until `heal`."""
        for link in self.links(node, servers):
            link.requests_held |= requests
            link.answers_held |= answers

    def cut(self, node: str, *, arriving: int | None = None, servers: Sequence[int] = ()) -> None:
        """Break the node's connections (see `reset`) and refuse new ones until `heal`."""
        for link in self.links(node, servers):
            link.refusing = True
        self.reset(node, arriving=arriving, servers=servers)

    def reset(self, node: str, *, arriving: int | None = None, servers: Sequence[int] = ()) -> None:
        """Break the node's connections; it may connect again at once. See `ServerConnection.reset`."""
        for link in self.links(node, servers):
            for connection in tuple(link.connections):
                connection.reset(arriving=arriving)

    def heal(self, node: str, servers: Sequence[int] = ()) -> None:
        """Accept connections of the node again, and send the held packets."""
        for link in self.links(node, servers):
            if link.holds_next_event:
                self._missed_events.append(node)
            link.refusing = link.requests_held = link.answers_held = link.holds_next_event = False
            for connection in tuple(link.connections):
                connection.flush()

    def hold_next_event(self, node: str) -> None:
        """Hold the next watch event on the node's connection and all packets after it, until `heal`."""
        links = self.links(node)
        next((link for link in links if link.connections), links[0]).holds_next_event = True

    def missed_events(self) -> list[str]:
        """The nodes for which an event had to be held, but none has come."""
        held = (link.node for links in self._links.values() for link in links if link.holds_next_event)
        return [*self._missed_events, *held]

    # ------------------------------------------------------------------ faults of servers

    @property
    def reachable(self) -> bool:
        """Whether any server runs; otherwise no node can open a connection."""
        return any(server.is_up for server in self.servers.values())

    def stop(self, *numbers: int) -> None:
        """Kill all servers, or those with these ids: break their connections, and refuse new ones.

        A standalone server expires no session meanwhile; in an ensemble sessions expire as long as it has a leader.
        """
        for server in self._each(numbers):
            server.is_up = False
            self.quorum.left(server)
            for link in self.links_to(server):
                for connection in tuple(link.connections):
                    connection.reset(arriving=0)
            if not self.quorum.is_standalone:
                server.waiting = None

    def start(self, *numbers: int) -> None:
        """Start all servers again, or those with these ids; members of an ensemble then look for a leader.

        Every session of a standalone server has its full timeout from now on, as after an election.
        """
        for server in self._each(numbers):
            server.is_up = True
            if self.quorum.is_standalone and server.leadership is not None:
                for session in self.sessions.values():
                    server.leadership.touch(session)

    def pause(self, *numbers: int) -> None:
        """Pause the processes of servers: connections stay, nothing is answered, and they expire no session."""
        for server in self._each(numbers):
            if server.waiting is None:
                server.waiting = deque()

    def resume(self, *numbers: int) -> None:
        """Resume servers, which serve what waits. Sessions may expire again. Harmless if they are not paused."""
        for server in self._each(numbers):
            waiting, server.waiting = server.waiting, None
            if waiting is not None:
                self.quorum.resumed(server)
            for arrive in waiting or ():
                arrive()

    def slow(self, by_ms: float, *numbers: int) -> None:
        """Delay each packet from servers to clients."""
        for server in self._each(numbers):
            server.slow_ms = by_ms

    def _each(self, numbers: Iterable[int]) -> list[ZooKeeperServer]:
        return [self.servers[number] for number in numbers or self.servers]

    def expire(self, session_id: int) -> None:
        """End a session as if it had timed out. Harmless if it has ended, or if there is no leader."""
        session, leadership = self.sessions.get(session_id), self.quorum.leadership()
        if session is not None and leadership is not None:
            leadership.close(Proposal(ProposalKind.CLOSE, session))

    def operate(self, ops: Sequence[Op]) -> bool:
        """Write a transaction as an operator with a ZooKeeper shell does.

        Returns:
            Whether it is applied: by a standalone server now, by an ensemble once a majority has it. False if an
            ensemble has no leader.
        """
        leadership = self.quorum.leadership()
        if leadership is None:
            return False
        outcomes: list[Outcome] = []
        is_possible = self.quorum.is_standalone or self.tree.accepts(ops)
        if is_possible:
            leadership.propose(Proposal(ProposalKind.WRITE, None, ops, done=outcomes.append))
        return is_possible and not any(isinstance(outcome, Refusal) for outcome in outcomes)

    @property
    def live_sessions(self) -> tuple[int, ...]:
        return tuple(sorted(self.sessions))

    # ------------------------------------------------------------------ used by the servers

    def new_session(self, timeout_ms: int) -> Session:
        """A session that a server will propose to open, with its timeout within the bounds."""
        session = Session(self._next_session_id, min(max(timeout_ms, 2 * self.tick_ms), 20 * self.tick_ms))
        self._next_session_id += 1
        return session

    def begin_ticking(self) -> None:
        """Look for expired sessions every tick, while there are sessions."""
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(self.tick_ms / 1000, self._tick, context=self.context)

    def _tick(self) -> None:
        for server in self.servers.values():
            if server.leadership is not None and server.is_able:
                server.leadership.expire_sessions()
        self._ticking = bool(self.sessions)
        if self._ticking:
            self.loop.call_later(self.tick_ms / 1000, self._tick, context=self.context)

    def breaks_connection(self, node: str, ops: Sequence[Op]) -> Literal["before", "after"] | None:
        """Return whether a fault breaks the connection before or after this write is applied; None if no fault does."""
        for rule in self.lost_answers:
            if rule.node == node and any(rule.path in op.path for op in ops):
                self.lost_answers.remove(rule)
                return "after" if rule.applied else "before"
        if self.unknown_probability and self.random.random() < self.unknown_probability:
            return "after" if self.random.random() < 0.5 else "before"
        return None

    def commit(self, proposal: Proposal) -> None:
        """Note a transaction that is committed. Harmless if an earlier leader has committed it.

        A refused one is no part of the history, but takes a zxid, as ZooKeeper's error transactions do.
        """
        if proposal.zxid <= self.zxid:
            return
        self.zxid = proposal.zxid
        session = proposal.session
        session_id = 0 if session is None else session.session_id
        is_close = proposal.kind is ProposalKind.CLOSE
        if proposal.kind is ProposalKind.OPEN and session is not None:
            self.sessions[session_id] = session
        if is_close:
            self.sessions.pop(session_id, None)
            proposal.ops = [Delete(path) for path in self.tree.ephemerals(session_id)]
        outcome = self._transact(proposal, self.tree)
        if self.quorum.is_standalone:
            proposal.outcome = outcome
        if isinstance(outcome, Refusal):
            assert not is_close, f"ephemeral znodes could not be removed: {outcome}"
            return
        noted = tuple(applied.op for applied in outcome)
        if is_close or any(op.kind is not OpKind.CHECK for op in noted):
            self.transactions.append(ZnodeTransaction(proposal.zxid, proposal.wall_ms, session_id, noted, is_close))

    def apply(self, proposal: Proposal, tree: ZnodeTree) -> Outcome:
        """Apply a committed transaction to the znodes of one server; a standalone one has applied it already."""
        return proposal.outcome if tree is self.tree else self._transact(proposal, tree)

    def _transact(self, proposal: Proposal, tree: ZnodeTree) -> Outcome:
        session_id = 0 if proposal.session is None else proposal.session.session_id
        return tree.transact(proposal.ops, zxid=proposal.zxid, session_id=session_id, wall_ms=proposal.wall_ms)


def _new_tree() -> ZnodeTree:
    """The znodes of a new server."""
    tree = ZnodeTree()
    for path in ("/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
        tree.transact([Create(path)], zxid=0, session_id=0)
    return tree
