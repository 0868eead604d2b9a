"""A consumer that is a member of a group: it joins, takes part in rebalances, and commits and fetches offsets.

Mirrors `AbstractCoordinator` and `ConsumerCoordinator` of Kafka's consumer, with few settings. One call at a time: the
caller calls `heartbeat` often enough, and `join` if `needs_to_join` is true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from understudy.clusters.clients.assignors.protocol import (
    BAD_BYTES,
    PROTOCOLS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from understudy.clusters.clients.assignors.subscriptions import NO_GENERATION, Subscription
from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, Connections, NoLeader
from understudy.clusters.clients.group_coordinator_link import MOVED, CoordinatorLink, GroupError
from understudy.clusters.clients.group_offsets import GroupOffsetsClient
from understudy.clusters.clients.member_events import (
    Assigned,
    JoinBegan,
    JoinEnded,
    MemberEvent,
    Released,
)
from understudy.clusters.clients.member_states import MemberMoved, MemberState
from understudy.foundation.cluster.errors import Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from understudy.foundation.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from understudy.foundation.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

JOIN_GROUP_VERSION: Final = 9
SYNC_GROUP_VERSION: Final = 5
HEARTBEAT_VERSION: Final = 4
LEAVE_GROUP_VERSION: Final = 5

_FAILURES = (NoLeader, GroupError, *NOT_SENT, *NO_ANSWER)
_FATAL = frozenset(
    {
        Errors.FENCED_INSTANCE_ID,
        Errors.GROUP_MAX_SIZE_REACHED,
        Errors.INCONSISTENT_GROUP_PROTOCOL,
        Errors.INVALID_GROUP_ID,
        Errors.INVALID_SESSION_TIMEOUT,
    }
)
_REMOVED = frozenset({Errors.ILLEGAL_GENERATION, Errors.UNKNOWN_MEMBER_ID})


class MemberRefused(Exception):
    """The group does not accept this member. The message has Kafka's name of the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """The settings of a member, named as in Kafka's consumer if it has them.

    Attributes:
        assignors: names of `PROTOCOLS`, the preferred one first; all cooperative or all eager.
        instance_id: the instance id of a static member (KIP-345).
        join_timeout_ms: the time for which a call of `join` tries.
        request_timeout_ms: the time for which a commit or a fetch of offsets is repeated.
        topics_interval_ms: the interval at which a group's leader checks whether the partitions of topics have changed.
    """

    group_id: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...] = ("range",)
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 1_000
    join_timeout_ms: int = 60_000
    request_timeout_ms: int = 10_000
    backoff_ms: int = 100
    topics_interval_ms: int = 5_000

    @property
    def is_cooperative(self) -> bool:
        return all(PROTOCOLS[name].is_cooperative for name in self.assignors)


class GroupMember:
    """One member; `note` is called with what it sees, in order.

    Attributes:
        owned: the partitions that it may read and commit now.
        generation: the generation in which it joined last; −1 if it has none.
        member_id: empty until the coordinator has given one.
        needs_to_join: it has no assignment, or the group rebalances.
    """

    def __init__(
        self, connections: Connections, clock: Clock, settings: MemberSettings, note: Callable[[MemberEvent], None]
    ) -> None:
        self._connections = connections
        self._clock = clock
        self._settings = settings
        self._note = note
        self._link = CoordinatorLink(connections, settings.group_id)
        self._last: tuple[tuple[TopicPartition, ...], int] = (), NO_GENERATION
        self._assigned_for: tuple[list[str], dict[str, int]] | None = None
        self._next_heartbeat_ms = 0.0
        self._next_look_ms = 0.0
        self.offsets = GroupOffsetsClient(
            self._link, clock, settings.request_timeout_ms, settings.backoff_ms, note, self._identity
        )
        self.owned: tuple[TopicPartition, ...] = ()
        self.generation = NO_GENERATION
        self.member_id = ""
        self.needs_to_join = True
        self._left_for = ""
        """Why it has to join again; empty for the first time."""

    async def join(self) -> bool:
        """Join the group, or join it again; return whether there is an assignment within `join_timeout_ms`.

        Raises:
            MemberRefused: the group does not accept this member.
        """
        self._note(JoinBegan(self._now()))
        if not self._settings.is_cooperative:
            self._release()
        self._move(MemberState.PREPARING_REBALANCE, self._left_for)
        deadline_ms = self._now() + self._settings.join_timeout_ms
        reason = "no time to join"
        while self._now() < deadline_ms:
            try:
                await self._join_once()
            except MemberRefused as refused:
                self._release()
                self._move(MemberState.UNJOINED, str(refused))
                self._note(JoinEnded(self._now(), str(refused)))
                raise
            except _FAILURES as failure:
                reason = str(failure)
                if not isinstance(failure, GroupError):
                    self._link.forget()
                self._move(MemberState.PREPARING_REBALANCE, reason)
                await asyncio.sleep(self._settings.backoff_ms / 1000)
            else:
                self._note(JoinEnded(self._now()))
                return True
        self._note(JoinEnded(self._now(), reason))
        return False

    async def heartbeat(self) -> None:
        """Send a heartbeat if it is due; notice a rebalance and, as the group's leader, new partitions of a topic.

        Raises:
            MemberRefused: another process has the same instance id.
        """
        if self.needs_to_join or self._now() < self._next_heartbeat_ms:
            return
        self._next_heartbeat_ms = self._now() + self._settings.heartbeat_interval_ms
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._settings.instance_id,
        )
        try:
            answer = await self._link.ask(request, HEARTBEAT_VERSION, HeartbeatResponse)
            if answer.error_code != Errors.NONE:
                self._on_error(answer.error_code)
            await self._look_at_topics()
        except _FAILURES as failure:
            if not isinstance(failure, GroupError):
                self._link.forget()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit offsets of owned partitions; return whether all are acknowledged. `note` gets each outcome."""
        errors = await self.offsets.commit(offsets)
        for error in errors:
            if error in _REMOVED or error in (Errors.REBALANCE_IN_PROGRESS, Errors.FENCED_INSTANCE_ID):
                self._on_membership_error(error)
        return not errors

    async def leave(self) -> None:
        """Leave the group. As in Kafka, a static member stays in it until its session times out."""
        self._release()
        if self.member_id and self._settings.instance_id is None:
            request = LeaveGroupRequest(
                group_id=self._settings.group_id,
                members=(MemberIdentity(member_id=self.member_id, reason="the consumer is being closed"),),
            )
            try:
                await self._link.ask(request, LEAVE_GROUP_VERSION, LeaveGroupResponse)
            except _FAILURES:
                # The session ends by its timeout.
                self._link.forget()
        self._reset(keep_member_id=False)
        self._move(MemberState.UNJOINED, "it leaves the group")

    async def _join_once(self) -> None:
        """Send JoinGroup and SyncGroup; raises MemberRefused, GroupError, or as `Connections.ask`."""
        settings = self._settings
        joined = await self._ask_to_join()
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self._move(MemberState.COMPLETING_REBALANCE)
        protocol = joined.protocol_name or ""
        if protocol not in PROTOCOLS:
            raise MemberRefused(f"INCONSISTENT_GROUP_PROTOCOL: the group has chosen {protocol!r}")
        assignments = await self._assign(joined) if joined.leader == joined.member_id else ()
        request = SyncGroupRequest(
            group_id=settings.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=protocol,
            assignments=assignments,
        )
        answer = await self._link.ask(
            request, SYNC_GROUP_VERSION, SyncGroupResponse, wait_ms=settings.rebalance_timeout_ms
        )
        if answer.error_code != Errors.NONE:
            self._on_error(answer.error_code)
            raise GroupError(error_name(answer.error_code))
        try:
            partitions = tuple(sorted(decode_assignment(answer.assignment)))
        except BAD_BYTES as bad:
            raise GroupError(f"the assignment cannot be read: {bad}") from None
        self._take_over(partitions, joined.leader)

    async def _ask_to_join(self) -> JoinGroupResponse:
        answer = await self._send_join()
        if answer.error_code == Errors.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = await self._send_join()
        if answer.error_code != Errors.NONE:
            self._on_error(answer.error_code)
            raise GroupError(error_name(answer.error_code))
        return answer

    async def _send_join(self) -> JoinGroupResponse:
        settings = self._settings
        owned = self.owned if settings.is_cooperative else ()
        subscription = Subscription(settings.topics, owned, self.generation, settings.instance_id)
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.instance_id,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=encode_subscription(name, subscription, *self._last))
                for name in settings.assignors
            ),
        )
        return await self._link.ask(
            request, JOIN_GROUP_VERSION, JoinGroupResponse, wait_ms=settings.rebalance_timeout_ms
        )

    async def _assign(self, joined: JoinGroupResponse) -> tuple[SyncGroupRequestAssignment, ...]:
        """Compute the assignment of all members, as the group's leader."""
        if joined.skip_assignment:
            return ()
        protocol = joined.protocol_name or ""
        subscriptions = {}
        for member in joined.members:
            try:
                found = decode_subscription(protocol, member.metadata, member.group_instance_id)
            except BAD_BYTES:
                found = Subscription((), instance_id=member.group_instance_id)
            subscriptions[member.member_id] = found
        topics = sorted({topic for each in subscriptions.values() for topic in each.topics})
        described = await self._connections.describe_topics(topics)
        self._assigned_for = topics, described.counts
        assigned = PROTOCOLS[protocol].assign(described.counts, subscriptions, described.racks)
        return tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
            for member, partitions in assigned.items()
        )

    def _take_over(self, partitions: tuple[TopicPartition, ...], leader: str) -> None:
        given_up = set(self.owned) - set(partitions)
        self.owned = partitions
        self._last = partitions, self.generation
        if leader != self.member_id:
            self._assigned_for = None
        # The partitions that a cooperative member gives up are assigned by the next rebalance, which it requests.
        self.needs_to_join = bool(given_up)
        self._next_heartbeat_ms = self._now() + self._settings.heartbeat_interval_ms
        self._note(Assigned(self._now(), self.generation, self.member_id, leader, partitions))
        self._left_for = "another member takes over what it gives up" if given_up else ""
        self._move(MemberState.STABLE)

    async def _look_at_topics(self) -> None:
        """As the group's leader, join again if a topic has other partitions than it has assigned."""
        if self._assigned_for is None or self.needs_to_join or self._now() < self._next_look_ms:
            return
        self._next_look_ms = self._now() + self._settings.topics_interval_ms
        topics, counts = self._assigned_for
        if (await self._connections.describe_topics(topics)).counts != counts:
            self._left_for = "a topic has other partitions"
            self.needs_to_join = True

    def _on_error(self, code: int) -> None:
        """Act on an error of JoinGroup, SyncGroup or Heartbeat; raises MemberRefused if another attempt is useless."""
        error = error_for_code(code)
        if error in MOVED:
            self._link.forget()
        elif error in _FATAL:
            raise MemberRefused(error_name(code))
        else:
            self._on_membership_error(error)

    def _on_membership_error(self, error: Errors) -> None:
        if error in _REMOVED:
            self._release()
            self._reset(keep_member_id=error is Errors.ILLEGAL_GENERATION)
            self._left_for = error.name
            self._move(MemberState.UNJOINED, error.name)
        elif error is Errors.FENCED_INSTANCE_ID:
            self._release()
            self._move(MemberState.UNJOINED, error.name)
            raise MemberRefused(error.name)
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._left_for = error.name
            self.needs_to_join = True

    def _release(self) -> None:
        if self.owned:
            self.owned = ()
            self._note(Released(self._now()))

    def _move(self, state: MemberState, reason: str = "") -> None:
        coordinator = self._link.coordinator
        self._note(MemberMoved(self._now(), state, self.generation, self.member_id, coordinator, self.owned, reason))

    def _reset(self, *, keep_member_id: bool) -> None:
        self.generation = NO_GENERATION
        if not keep_member_id:
            self.member_id = ""
        self.needs_to_join = True

    def _identity(self) -> tuple[int, str, str | None]:
        return self.generation, self.member_id, self._settings.instance_id

    def _now(self) -> float:
        return self._clock.monotonic_ms()
