"""One hosted partition as a value, and the moves a control request makes with it. Mirrors `kafka.cluster.Partition`.

Pure: a partition goes in with what the controller said, a new one comes out. Logs are empty in this milestone, so that
log end offset, high watermark and the start offset of every leader epoch are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.cluster.leadership import NO_LEADER, NO_LEADER_EPOCH, LeaderRecoveryState
from foundation.eventlog.records import Leadership
from foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState

LOG_END_OFFSET = 0
"""Nothing is ever appended."""

UNKNOWN_OFFSET = -1


class Role(Enum):
    NONE = "none"
    """Hosted, and not yet told to lead or to follow."""
    LEADER = "leader"
    FOLLOWER = "follower"


class IsrProposal(NamedTuple):
    """An ISR this leader has asked the controller for, and the epochs it was asked at (`PendingPartitionChange`)."""

    isr: tuple[int, ...]
    joining: tuple[int, ...]
    leaving: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class FollowerState(NamedTuple):
    """What a leader knows of one follower (`kafka.cluster.ReplicaState`). Times are monotonic milliseconds."""

    log_end_offset: int = UNKNOWN_OFFSET
    last_caught_up_ms: float = 0.0
    last_fetch_ms: float = 0.0
    leader_epoch: int = NO_LEADER_EPOCH
    """At which it last fetched; `NO_LEADER_EPOCH` where it named none."""


class Partition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A partition this broker hosts.

    Attributes:
        isr: the committed in-sync replicas; empty for a follower, which is not told.
        leader_since_ms: monotonic time at which the current leader epoch began here.
        proposal: the ISR change under way, if any.
    """

    topic_partition: TopicPartition
    topic_id: TopicId = NO_TOPIC_ID
    role: Role = Role.NONE
    leader: int = NO_LEADER
    leader_epoch: int = NO_LEADER_EPOCH
    partition_epoch: int = 0
    controller_epoch: int = 0
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = LeaderRecoveryState.RECOVERED
    leader_since_ms: float = 0.0
    proposal: IsrProposal | None = None

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Everybody who might be in sync, whatever becomes of the proposal (IS-3)."""
        if self.proposal is None:
            return self.isr
        return (*self.isr, *self.proposal.joining)


def made_leader(partition: Partition, state: LeaderAndIsrPartitionState, topic_id: TopicId, now_ms: float) -> Partition:
    """BK-8. A leader treats itself as recovered, whatever the state says (IS-19)."""
    return Partition(
        topic_partition=partition.topic_partition,
        topic_id=partition.topic_id if topic_id == NO_TOPIC_ID else topic_id,
        role=Role.LEADER,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        isr=state.isr,
        replicas=state.replicas,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        leader_since_ms=now_ms,
    )


def made_follower(partition: Partition, state: LeaderAndIsrPartitionState, topic_id: TopicId) -> Partition:
    """BK-9, where the leader is known to be alive. A follower forgets the ISR: it is not its business."""
    return Partition(
        topic_partition=partition.topic_partition,
        topic_id=partition.topic_id if topic_id == NO_TOPIC_ID else topic_id,
        role=Role.FOLLOWER,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        replicas=state.replicas,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
        leader_recovery_state=state.leader_recovery_state,
    )


def followers_after_election(
    followers: Mapping[int, FollowerState], partition: Partition, now_ms: float
) -> dict[int, FollowerState]:
    """What a leader elected again still knows of its followers: members of the ISR count as caught up from now on."""
    return {
        follower: known._replace(last_caught_up_ms=now_ms if follower in partition.isr else 0.0)
        for follower, known in followers.items()
        if follower in partition.replicas
    }


def leadership_of(partition: Partition, state: LeaderAndIsrPartitionState) -> Leadership:
    """The record's view of what was applied: `isr` is what the controller said, also to a follower."""
    topic, number = partition.topic_partition
    return Leadership(
        topic,
        number,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.partition_epoch,
        state.controller_epoch,
        state.leader_recovery_state,
    )
