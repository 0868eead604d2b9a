"""A group: its members, generation, protocol, state and offsets. Mirrors `kafka.coordinator.group.GroupMetadata`.

Its methods change it or raise, and wait for nothing. There is one event loop, so it needs no lock; whatever waits looks
at state and generation again afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from understudy.brokers.coordinator.group.group_offsets import GroupOffsets, OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import VALID_PREVIOUS_STATES, GroupState, check_transition
from understudy.brokers.coordinator.group.member_metadata import (
    JoinCallback,
    JoinGroupResult,
    MemberMetadata,
    Protocols,
    SyncGroupResult,
)
from understudy.brokers.coordinator.group.timer import TimerTask
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE, ConsumerProtocolSubscription
from understudy.foundation.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from understudy.foundation.wire.messages.join_group import JoinGroupResponseMember
from understudy.foundation.wire.version_prefixed import decode_prefixed

_VERSION_0: Final = b"\0\0"


class GroupMetadata:
    """One group.

    Args:
        partition: the partition of `__consumer_offsets` that stores it.
        now_ms: wall time.

    Attributes:
        state_timestamp: when it entered its state, in wall ms; None if a record of an old version does not say.
        protocol_type: the type of its members, such as `consumer`; None while it never had any.
        protocol_name: the protocol of this generation.
        subscribed_topics: the topics of a consumer group's members in this generation; None if they are not known.
        pending_members: ids that were given to members which have not joined with them yet (KIP-394), each with the
            timer after which it is taken back.
        pending_sync_members: members of this generation that have not sent SyncGroup yet.
        has_new_member: whether a member has joined since the initial delay last began.
    """

    def __init__(
        self, group_id: str, partition: int, *, now_ms: int | None, state: GroupState = GroupState.EMPTY
    ) -> None:
        self.group_id = group_id
        self.partition = partition
        self.state = state
        self.state_timestamp = now_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.offsets = GroupOffsets()
        self.pending_members: dict[str, TimerTask] = {}
        self.pending_sync_members: set[str] = set()
        self.has_new_member = False
        self._members: dict[str, MemberMetadata] = {}
        self._static_members: dict[str, str] = {}
        self._awaiting_join = 0
        self._supported: Counter[str] = Counter()

    # ------------------------------------------------------------------ members

    @property
    def members(self) -> Mapping[str, MemberMetadata]:
        """The members by id, in the order of their joining."""
        return self._members

    @property
    def static_members(self) -> Mapping[str, str]:
        """The ids of static members, by instance id."""
        return self._static_members

    @property
    def awaiting_join(self) -> int:
        """The number of members whose JoinGroup waits (`numAwaiting`)."""
        return self._awaiting_join

    @property
    def is_consumer_group(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    @property
    def has_all_members_joined(self) -> bool:
        return len(self._members) == self._awaiting_join and not self.pending_members

    @property
    def not_yet_rejoined(self) -> list[MemberMetadata]:
        """The members whose JoinGroup the group still waits for."""
        return [member for member in self._members.values() if not member.is_awaiting_join]

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def add(self, member: MemberMetadata, callback: JoinCallback | None = None) -> None:
        """Add a member, whose JoinGroup waits if there is a callback. The first one becomes the leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._static_members, "a static member is replaced, not added"
            self._static_members[member.group_instance_id] = member.member_id
        if not self._members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._members[member.member_id] = member
        self._count_protocols(member, 1)
        member.awaiting_join = callback
        if callback is not None:
            self._awaiting_join += 1

    def remove(self, member_id: str) -> MemberMetadata | None:
        """Remove a member, if it is one; another one becomes leader if it was the leader."""
        member = self._members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.is_awaiting_join:
                self._awaiting_join -= 1
            if member.group_instance_id is not None:
                self._static_members.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._members), None)
        self.pending_sync_members.discard(member_id)
        return member

    def update_member(
        self,
        member: MemberMetadata,
        protocols: Protocols,
        *,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        callback: JoinCallback | None,
    ) -> None:
        """Take over what a member has sent when it joined again; its new JoinGroup waits instead of an old one."""
        self._count_protocols(member, -1)
        member.supported_protocols = protocols
        self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        superseded = member.awaiting_join
        self._awaiting_join += (callback is not None) - member.is_awaiting_join
        member.awaiting_join = callback
        if superseded is not None:
            superseded(JoinGroupResult(member.member_id, Errors.REBALANCE_IN_PROGRESS))

    def replace_static_member(self, group_instance_id: str, old_id: str, new_id: str) -> MemberMetadata:
        """Give a static member another id; what still waits under the old one is answered FENCED_INSTANCE_ID."""
        member = self._members.pop(old_id)
        self.answer_join(member, JoinGroupResult(old_id, Errors.FENCED_INSTANCE_ID))
        self.answer_sync(member, SyncGroupResult(Errors.FENCED_INSTANCE_ID))
        member.member_id = new_id
        self._members[new_id] = member
        if self.leader_id == old_id:
            self.leader_id = new_id
        self._static_members[group_instance_id] = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader, unless the leader has; return False if no member has joined."""
        if self.leader_id is None:
            return False
        if self._members[self.leader_id].is_awaiting_join:
            return True
        joined = next((member for member in self._members.values() if member.is_awaiting_join), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def answer_join(self, member: MemberMetadata, result: JoinGroupResult) -> None:
        """Answer the JoinGroup of a member, if one waits."""
        callback = member.awaiting_join
        if callback is not None:
            member.awaiting_join = None
            self._awaiting_join -= 1
            callback(result)

    def answer_sync(self, member: MemberMetadata, result: SyncGroupResult) -> bool:
        """Answer the SyncGroup of a member; return whether one waited."""
        callback = member.awaiting_sync
        if callback is None:
            return False
        member.awaiting_sync = None
        callback(result)
        return True

    # ------------------------------------------------------------------ protocols

    def supports_protocols(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols may join: it shares one with all members, or is the first."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        members = len(self._members)
        return self.protocol_type == protocol_type and any(self._supported[name] == members for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol that all members support and most of them prefer."""
        candidates = {name for name, count in self._supported.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return max(votes, key=lambda name: votes[name])

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member may consume `topic`; True if the subscriptions are not known."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def compute_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that the members of a consumer group are subscribed to in this generation.

        None for groups of other protocol types, and if a subscription cannot be read.
        """
        if not self.is_consumer_group:
            return None
        if not self._members:
            return frozenset()
        if self.protocol_name is None:
            return None
        metadata = (member.metadata(self.protocol_name) for member in self._members.values())
        topics = [topics_of(each) for each in metadata]
        if any(each is None for each in topics):
            return None
        return frozenset(topic for each in topics if each is not None for topic in each)

    def _count_protocols(self, member: MemberMetadata, change: int) -> None:
        for name, _ in member.supported_protocols:
            self._supported[name] += change
            if not self._supported[name]:
                del self._supported[name]

    # ------------------------------------------------------------------ states

    @property
    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[GroupState.PREPARING_REBALANCE]

    def transition_to(self, state: GroupState, *, now_ms: int) -> None:
        """Enter a state.

        Raises:
            InvalidTransition: it cannot follow the present one.
        """
        check_transition(self.group_id, self.state, state)
        self.state = state
        self.state_timestamp = now_ms

    def init_next_generation(self, *, now_ms: int) -> None:
        """Begin the next generation with the members that are here; without any the group is Empty."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self._members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self._members else GroupState.EMPTY, now_ms=now_ms)
        self.pending_sync_members.clear()

    # ------------------------------------------------------------------ descriptions of the group

    def member_metadata(self) -> tuple[JoinGroupResponseMember, ...]:
        """Return what the leader is given of all members in this generation."""
        return tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self._members.values()
        )

    def described(self) -> DescribedGroup:
        """Return what DescribeGroups shows; protocol, metadata and assignments only if the group is Stable."""
        is_stable = self.state is GroupState.STABLE
        members = tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(self.protocol_name) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in self._members.values()
        )
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_data=self.protocol_name or "" if is_stable else "",
            members=members,
        )

    # ------------------------------------------------------------------ expiry

    def remove_expired_offsets(self, now_ms: int, retention_ms: int) -> dict[TopicPartition, OffsetAndMetadata]:
        """Remove the offsets that nothing keeps any more; return them (KIP-211).

        Without members all expire together, `retention_ms` after the last one left; without members ever, or if no
        member is subscribed to their topic, that long after their commit. During a rebalance none does.
        """
        since = self.state_timestamp
        if self.protocol_type is None:
            return self.offsets.remove_expired(now_ms, retention_ms, base_timestamp=_committed_at)
        if self.state is GroupState.EMPTY:
            if since is None:
                return self.offsets.remove_expired(now_ms, retention_ms, base_timestamp=_committed_at)
            return self.offsets.remove_expired(now_ms, retention_ms, base_timestamp=lambda _: since)
        if self.state is GroupState.STABLE and self.is_consumer_group and self.subscribed_topics is not None:
            return self.offsets.remove_expired(
                now_ms, retention_ms, base_timestamp=_committed_at, kept_topics=self.subscribed_topics
            )
        return {}


def _committed_at(value: OffsetAndMetadata) -> int:
    return value.commit_timestamp


def topics_of(subscription: bytes) -> tuple[str, ...] | None:
    """Return the topics in a consumer's subscription of any version; None if it cannot be read.

    Every version begins like version 0, which has the topics.
    """
    try:
        return decode_prefixed(ConsumerProtocolSubscription, _VERSION_0 + subscription[len(_VERSION_0) :]).topics
    except MalformedMessage:
        return None
