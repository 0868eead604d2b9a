"""The servers of a simulated ensemble among each other: leader, followers, elections, and the cuts between them.

It has the guarantees and time limits of ZooKeeper 3.8, and not its messages:

- The leader gives each proposal a zxid, in the order in which proposals arrive, and sends it to its followers. A
  proposal is committed, in that order, once a majority of all servers has it in its log. Followers apply it when they
  receive the commit, and until then answer reads with older data.
- A leader without a majority of followers that have answered it within `SYNC_LIMIT_MS` leads no more, and a follower
  that has received nothing for as long follows no more. Both close all connections of clients, and accept none.
- Servers that look for a leader follow one that they reach, if there is one. Otherwise, if a majority of all servers is
  among them, it elects the one with the newest log, of several the one with the highest id. An election takes a time
  that the seed draws from `ELECTION_MS`, including the synchronisation of the followers.
- The new leader commits all of its log: also proposals that were never acknowledged. Followers replace what their logs
  have beyond that.

A standalone server leads itself at all times, so that proposals are committed at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from understudy.clusters.simulated.znode_tree import Applied, Refusal
from understudy.clusters.simulated.zookeeper_connection import ServerConnection, Session
from understudy.foundation.zk.client import Op

if TYPE_CHECKING:
    from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
    from understudy.clusters.simulated.zookeeper_server import ZooKeeperServer

SYNC_LIMIT_MS: Final = 5_000.0
"""Time after which two servers give up the connection between them if nothing arrives, as on processes."""
ELECTION_MS: Final = (200.0, 800.0)
"""Bounds of the time from the beginning of an election until its leader serves."""
PEER_LATENCY_MS: Final = (0.1, 2.1)
"""Bounds of the latency between two servers; the seed draws one for each connection."""
_EPOCH_BITS: Final = 32

Outcome: TypeAlias = list[Applied] | Refusal
Message: TypeAlias = Callable[[], None]


class ProposalKind(Enum):
    """OPEN and CLOSE open and close a session."""

    WRITE = auto()
    OPEN = auto()
    CLOSE = auto()


@dataclass(eq=False, slots=True)
class Proposal:
    """A transaction in the order of the leader.

    Attributes:
        session: the session that it opens or closes, or that writes; None for an operator's write.
        connection: the connection on which it was requested; None if no client has requested it.
        done: called with its outcome at the server of `connection`, once applied there; without a connection, at the
            leader.
        acks: the ids of the servers that have it in their logs.
        outcome: of a standalone server, its outcome from its commit until it is applied.
    """

    kind: ProposalKind
    session: Session | None
    ops: Sequence[Op] = ()
    connection: ServerConnection | None = None
    done: Callable[[Outcome], None] | None = None
    zxid: int = 0
    wall_ms: float = 0.0
    acks: set[int] = field(default_factory=set)
    outcome: Outcome = field(default_factory=list)


class _Direction:
    """What one server sends to the other on a connection; it arrives in order."""

    def __init__(self, peering: Peering, receiver: ZooKeeperServer, latency_ms: float) -> None:
        self._peering = peering
        self._receiver = receiver
        self._latency_ms = latency_ms
        self._last_at = 0.0
        self._held: deque[Message] = deque()

    def send(self, message: Message) -> None:
        """Send a message: it is called when it arrives, if it does."""
        if self._peering.is_cut:
            self._held.append(message)
            return
        quorum = self._peering.quorum
        latency_s = self._latency_ms * (0.75 + 0.5 * quorum.random.random()) / 1000
        self._last_at = max(self._last_at, quorum.loop.time() + latency_s)
        quorum.loop.call_at(self._last_at, self._arrive, message, context=quorum.context)

    def _arrive(self, message: Message) -> None:
        if self._receiver.waiting is not None:
            self._receiver.waiting.append(partial(self._arrive, message))
        elif self._peering.is_open:
            message()

    def flush(self) -> None:
        held, self._held = self._held, deque()
        for message in held:
            self.send(message)


class Peering:
    """The connection of a follower to its leader.

    A cut holds the messages. A closed one delivers nothing more, and its other end notices that at its next check, or
    if the connection is cut after `SYNC_LIMIT_MS`.
    """

    def __init__(self, quorum: Quorum, leadership: Leadership, follower: ZooKeeperServer) -> None:
        self.quorum = quorum
        self.leadership = leadership
        self.follower = follower
        self.is_open = True
        self.answered_at = self.received_at = quorum.loop.time()
        """When the leader last received an answer, and when the follower last received anything."""
        latency_ms = quorum.random.uniform(*PEER_LATENCY_MS)
        self.to_leader = _Direction(self, leadership.server, latency_ms)
        self.to_follower = _Direction(self, follower, latency_ms)

    @property
    def is_cut(self) -> bool:
        return self.quorum.is_cut(self.leadership.server.number, self.follower.number)

    @property
    def is_seen_closed(self) -> bool:
        return not self.is_open and not self.is_cut

    def is_silent_since(self, moment: float) -> bool:
        """Whether nothing has arrived for so long that the end for which `moment` is the last arrival gives it up."""
        return (self.quorum.loop.time() - moment) * 1000 > SYNC_LIMIT_MS

    def flush(self) -> None:
        self.to_leader.flush()
        self.to_follower.flush()

    def propose(self, proposal: Proposal) -> None:
        """Send a proposal of the leader to the follower, which writes it to its log and acknowledges it."""

        def acknowledge() -> None:
            self.follower.log.append(proposal)
            self.to_leader.send(partial(self.leadership.acknowledged, proposal, self.follower.number))

        self.to_follower.send(acknowledge)

    def ping(self) -> None:
        """Send a ping of the leader; the follower answers with the sessions that it has served since the last one."""

        def answer() -> None:
            self.received_at = self.quorum.loop.time()
            touched, self.follower.touched = self.follower.touched, {}
            self.to_leader.send(partial(answered, tuple(touched)))

        def answered(touched: tuple[Session, ...]) -> None:
            self.answered_at = self.quorum.loop.time()
            for session in touched:
                self.leadership.touch(session)

        self.to_follower.send(answer)


class Leadership:
    """The time during which one server leads: its followers, and the clock by which sessions expire."""

    def __init__(self, quorum: Quorum, zookeeper: SimulatedZooKeeper, server: ZooKeeperServer, epoch: int) -> None:
        self.server = server
        self.peerings: dict[int, Peering] = {}
        self._quorum = quorum
        self._zookeeper = zookeeper
        self._epoch = epoch
        self._expires_at_ms: dict[int, float] = {}
        self._closing: set[int] = set()

    # ------------------------------------------------------------------ sessions

    def touch(self, session: Session) -> None:
        """Extend the session by its timeout from now on."""
        tick = self._zookeeper.tick_ms
        now_ms = self._zookeeper.loop.time() * 1000
        self._expires_at_ms[session.session_id] = ((now_ms + session.timeout_ms) // tick + 1) * tick
        self._zookeeper.begin_ticking()

    def find(self, session_id: int) -> Session | None:
        """The session, unless it has ended or is being closed."""
        return None if session_id in self._closing else self._zookeeper.sessions.get(session_id)

    def attach(self, session_id: int, connection: ServerConnection) -> Session | None:
        """Let a session continue on another connection; requests on its old one are not applied from now on."""
        session = self.find(session_id)
        if session is not None:
            if session.connection is not None:
                session.connection.close_at_server()
            session.connection = connection
            self.touch(session)
        return session

    def expire_sessions(self) -> None:
        """Close the sessions whose timeouts are over."""
        now_ms = self._zookeeper.loop.time() * 1000
        live = self._zookeeper.sessions.values()
        for session in [each for each in live if self._expires_at_ms.get(each.session_id, math.inf) <= now_ms]:
            self.close(Proposal(ProposalKind.CLOSE, session))

    def close(self, proposal: Proposal) -> None:
        """Propose the end of a session, unless that is proposed already."""
        assert proposal.session is not None
        if self.find(proposal.session.session_id) is proposal.session:
            self._closing.add(proposal.session.session_id)
            self._propose(proposal)

    # ------------------------------------------------------------------ proposals

    def propose(self, proposal: Proposal) -> None:
        """Give a proposal its place in the order, and send it to the followers.

        One of a session that has ended, or that has another connection by now, is dropped.
        """
        session = proposal.session
        is_dropped = (
            proposal.kind is ProposalKind.WRITE
            and session is not None
            and (self.find(session.session_id) is not session or session.connection is not proposal.connection)
        )
        if not is_dropped:
            self._propose(proposal)

    def _propose(self, proposal: Proposal) -> None:
        server = self.server
        proposal.zxid = max(server.last_logged_zxid, self._epoch << _EPOCH_BITS) + 1
        proposal.wall_ms = self._zookeeper.wall_ms()
        proposal.acks.add(server.number)
        server.log.append(proposal)
        for peering in self.peerings.values():
            peering.propose(proposal)
        self._commit()

    def acknowledged(self, proposal: Proposal, number: int) -> None:
        """Note that a follower has a proposal in its log."""
        proposal.acks.add(number)
        self._commit()

    def _commit(self) -> None:
        """Commit, in order, what a majority has in its logs."""
        server = self.server
        while server.applied < len(server.log):
            if not self._quorum.is_majority(len(server.log[server.applied].acks)):
                return
            self.commit_next()

    def commit_next(self) -> None:
        """Commit the next proposal of the leader's log, apply it there, and send the commit to the followers.

        A standalone server forgets it then: nothing reads its log again.
        """
        server = self.server
        proposal = server.log[server.applied]
        self._zookeeper.commit(proposal)
        if proposal.kind is ProposalKind.OPEN and proposal.session is not None:
            self.touch(proposal.session)
        server.apply_next()
        for peering in self.peerings.values():
            peering.to_follower.send(partial(peering.follower.apply_up_to, server.applied))
        if self._quorum.is_standalone:
            server.log.clear()
            server.applied = 0

    # ------------------------------------------------------------------ followers

    @property
    def has_majority(self) -> bool:
        """Whether a majority, the leader included, has answered recently."""
        following = sum(each.is_open and not each.is_silent_since(each.answered_at) for each in self.peerings.values())
        return self._quorum.is_majority(1 + following)

    def give_up_lost_followers(self) -> None:
        for number, peering in tuple(self.peerings.items()):
            if peering.is_seen_closed or peering.is_silent_since(peering.answered_at):
                peering.is_open = False
                del self.peerings[number]

    def ping(self) -> None:
        for peering in self.peerings.values():
            peering.ping()

    def accept(self, follower: ZooKeeperServer) -> None:
        """Let a server follow: its log becomes the leader's, and it applies the committed part."""
        server = self.server
        follower.log[follower.applied :] = server.log[follower.applied : server.applied]
        follower.apply_up_to(server.applied)
        peering = Peering(self._quorum, self, follower)
        self.peerings[follower.number] = follower.peering = peering
        for proposal in server.log[server.applied :]:
            peering.propose(proposal)

    def close_peerings(self) -> None:
        for peering in self.peerings.values():
            peering.is_open = False
        self.peerings.clear()


class Quorum:
    """Which server leads and which follow, and the cuts between servers.

    At first the last server leads. A standalone one draws nothing from the random source.
    """

    def __init__(self, zookeeper: SimulatedZooKeeper, servers: Sequence[ZooKeeperServer]) -> None:
        self.loop = zookeeper.loop
        self.context = zookeeper.context
        self.random = zookeeper.random
        self._zookeeper = zookeeper
        self._servers = tuple(servers)
        self._cuts: set[frozenset[int]] = set()
        self._epoch = 0
        self._is_electing = False
        if self.is_standalone:
            servers[0].leadership = Leadership(self, zookeeper, servers[0], 0)
        else:
            self._win(self._servers[-1], self._servers[:-1])
            self._check_later()

    @property
    def is_standalone(self) -> bool:
        return len(self._servers) == 1

    def is_majority(self, count: int) -> bool:
        return 2 * count > len(self._servers)

    def leadership(self) -> Leadership | None:
        """The leadership of the server that leads a majority, or the standalone server's; None if there is none."""
        if self.is_standalone:
            return self._servers[0].leadership
        leading = (server.leadership for server in self._servers if server.leadership is not None and server.is_able)
        return next((each for each in leading if self._is_effective(each)), None)

    def leader(self) -> int | None:
        """The id of the server that leads; None if no server does at this moment."""
        leadership = self.leadership()
        return None if leadership is None else leadership.server.number

    def _is_effective(self, leadership: Leadership) -> bool:
        """Whether a leader reaches a majority now, and not only has done so recently."""
        able = [each for each in leadership.peerings.values() if each.is_open and not each.is_cut]
        return self.is_majority(1 + sum(each.follower.is_able for each in able))

    # ------------------------------------------------------------------ cuts

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self._cuts

    def cut(self, one: int, other: int) -> None:
        """Hold what two servers send to each other, until `heal`."""
        self._cuts.add(frozenset((one, other)))

    def heal(self, one: int, other: int) -> None:
        """Send the messages that are held between two servers. Harmless if they are not cut."""
        self._cuts.discard(frozenset((one, other)))
        for server in self._servers:
            if server.peering is not None and {server.number, server.peering.leadership.server.number} == {one, other}:
                server.peering.flush()

    def heal_all(self) -> None:
        """End all cuts between servers."""
        for cut in tuple(self._cuts):
            self.heal(*cut)

    # ------------------------------------------------------------------ who leads

    def left(self, server: ZooKeeperServer) -> None:
        """Let a server neither lead nor follow. A standalone one leads itself all the same."""
        if self.is_standalone:
            return
        if server.leadership is not None:
            server.leadership.close_peerings()
            server.leadership = None
        if server.peering is not None:
            server.peering.is_open = False
            server.peering = None

    def resumed(self, server: ZooKeeperServer) -> None:
        """Let the time without messages of a server that was paused begin anew, as its own timers do."""
        now = self.loop.time()
        if server.peering is not None:
            server.peering.received_at = now
        if server.leadership is not None:
            for peering in server.leadership.peerings.values():
                peering.answered_at = now

    def _check_later(self) -> None:
        self.loop.call_later(self._zookeeper.tick_ms / 2000, self._check, context=self.context)

    def _check(self) -> None:
        """Let each server notice what it has lost, and look for a leader; every half tick."""
        for server in self._servers:
            if server.is_able and self._has_lost_quorum(server):
                self.left(server)
                server.close_connections()
        self._look_for_leaders()
        self._check_later()

    def _has_lost_quorum(self, server: ZooKeeperServer) -> bool:
        if server.leadership is not None:
            server.leadership.give_up_lost_followers()
            server.leadership.ping()
            return not server.leadership.has_majority
        leading = server.peering
        return leading is not None and (leading.is_seen_closed or leading.is_silent_since(leading.received_at))

    def _look_for_leaders(self) -> None:
        looking = [server for server in self._servers if server.is_able and not server.is_serving]
        for server in looking:
            leadership = self.leadership()
            if leadership is not None and not self.is_cut(leadership.server.number, server.number):
                leadership.accept(server)
        if not self._is_electing and self._candidate() is not None:
            self._is_electing = True
            delay_s = self.random.uniform(*ELECTION_MS) / 1000
            self.loop.call_later(delay_s, self._conclude, context=self.context)

    def _candidate(self) -> tuple[ZooKeeperServer, list[ZooKeeperServer]] | None:
        """The server that would win an election now, and its voters without itself."""
        looking = [server for server in self._servers if server.is_able and not server.is_serving]
        for server in sorted(looking, key=lambda each: (each.last_logged_zxid, each.number), reverse=True):
            voters = [each for each in looking if each is not server and not self.is_cut(each.number, server.number)]
            if self.is_majority(1 + len(voters)):
                return server, voters
        return None

    def _conclude(self) -> None:
        self._is_electing = False
        candidate = self._candidate()
        if candidate is not None:
            self._win(*candidate)

    def _win(self, server: ZooKeeperServer, voters: Sequence[ZooKeeperServer]) -> None:
        """Let a server lead: it commits all of its log, and every session has its full timeout from now on."""
        self._epoch += 1
        server.leadership = leadership = Leadership(self, self._zookeeper, server, self._epoch)
        while server.applied < len(server.log):
            leadership.commit_next()
        for session in self._zookeeper.sessions.values():
            leadership.touch(session)
        for voter in voters:
            leadership.accept(voter)
