"""One partition that this broker hosts: its state, its log, its followers. Mirrors `kafka.cluster.Partition`.

`LocalPartitionState` and `FollowerState` are values; plain functions make new ones from what a control request holds.
`Partition` is the one owner of what changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from understudy.brokers.log.partition_log import PartitionLog
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER, NO_LEADER_EPOCH, LeaderRecoveryState
from understudy.foundation.eventlog.records import Leadership
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState

UNKNOWN_OFFSET = -1


class Role(Enum):
    """The role of this broker's replica."""

    NONE = "none"
    """Hosted, but no LeaderAndIsr has made this replica leader or follower yet."""
    LEADER = "leader"
    FOLLOWER = "follower"


class IsrProposal(NamedTuple):
    """An ISR that this leader has proposed to the controller, and at which epochs. Mirrors `PendingPartitionChange`."""

    isr: tuple[int, ...]
    joining: tuple[int, ...]
    leaving: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int


class LastFetch:
    """When the last Fetch of a session came: monotonic milliseconds."""

    __slots__ = ("ms",)

    def __init__(self, ms: float) -> None:
        self.ms = ms


class FollowerState(NamedTuple):
    """The fetch progress of one follower, kept by the leader. Times are monotonic milliseconds.

    Mirrors `kafka.cluster.ReplicaState`. If `session` is set, each Fetch of that session is one at the leader's end,
    and counts without a new state being set for every partition: `current` returns the state that it stands for.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    last_caught_up_ms: float = 0.0
    last_fetch_ms: float = 0.0
    leader_epoch: int = NO_LEADER_EPOCH
    """The leader epoch of its last Fetch; `NO_LEADER_EPOCH` if that named none."""
    last_fetch_leader_end_offset: int = UNKNOWN_OFFSET
    """Where the leader's log ended at its last Fetch."""
    log_start_offset: int = UNKNOWN_OFFSET
    session: LastFetch | None = None

    @property
    def caught_up_ms(self) -> float:
        """When the follower last had all that the leader had."""
        if self.session is None:
            return self.last_caught_up_ms
        return max(self.last_caught_up_ms, self.session.ms)

    @property
    def current(self) -> FollowerState:
        """The same state with its times as of now, which the session's next Fetch does not change."""
        if self.session is None:
            return self
        return self._replace(last_caught_up_ms=self.caught_up_ms, last_fetch_ms=self.session.ms, session=None)


class LocalPartitionState(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The leadership, assignment and ISR of a hosted partition, as this broker has received them.

    Mirrors `kafka.cluster.PartitionState`, with the fields of `kafka.cluster.Partition` that change together with it.

    Attributes:
        isr: the committed in-sync replicas; empty on a follower, which does not use them.
        leader_since_ms: monotonic time at which this broker became leader at the current leader epoch.
        proposal: the ISR change that the controller has not decided, if any.
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
        """Every replica that is in the ISR if the proposal fails or if it succeeds (IS-3)."""
        if self.proposal is None:
            return self.isr
        return (*self.isr, *self.proposal.joining)


_NO_FOLLOWERS: Mapping[int, FollowerState] = MappingProxyType({})


class Partition(msgspec.Struct, eq=False):
    """A hosted partition: the one owner of its state, its log and the states of its followers.

    The garbage collector tracks it: its log refers to the disk and the clock, which in a simulation lead back to it.

    Attributes:
        local_log: this broker's replica of the log; None if no LeaderAndIsr has assigned the partition to it.
        leader_epoch_start_offset: the log end offset when the current leader epoch began here.
    """

    state: LocalPartitionState
    local_log: PartitionLog | None = None
    leader_epoch_start_offset: int = 0
    _followers: dict[int, FollowerState] | None = None

    @property
    def log(self) -> PartitionLog:
        """The log of a partition that this broker leads or follows."""
        assert self.local_log is not None, f"{self.topic_partition} is assigned to this broker"
        return self.local_log

    @property
    def topic_partition(self) -> TopicPartition:
        return self.state.topic_partition

    @property
    def topic_id(self) -> TopicId:
        return self.state.topic_id

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        return self.state.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.state.role is Role.LEADER

    @property
    def followers(self) -> Mapping[int, FollowerState]:
        """The followers that have fetched from this leader, by broker id (`remoteReplicasMap`)."""
        return _NO_FOLLOWERS if self._followers is None else self._followers

    @property
    def effective_min_isr(self) -> int:
        """`min.insync.replicas`, or the number of replicas if there are fewer."""
        return min(self.log.config.min_insync_replicas, len(self.state.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the committed ISR has fewer members than `min.insync.replicas`."""
        return self.is_leader and len(self.state.isr) < self.effective_min_isr

    def apply(self, state: LocalPartitionState, now_ms: float, *, notes_epoch_start: bool = True) -> None:
        """Set the state that follows from a LeaderAndIsr request; `makeLeader` and `makeFollower`.

        A new leader notes in its log where its epoch begins, even if it never appends: followers with records of
        epochs in between find there where to truncate (KIP-279).

        Args:
            notes_epoch_start: False if an experiment undoes that (KAFKA-7415).
        """
        before = self.state
        self.state = state
        if self.local_log is not None:
            self.local_log.assign_topic_id(state.topic_id)
        if state.leader_epoch != before.leader_epoch and state.role is Role.LEADER:
            self.leader_epoch_start_offset = self.log.log_end_offset
            if notes_epoch_start:
                self.log.assign_epoch_start(state.leader_epoch)
        if self._followers is not None:
            stays_leader = before.is_leader and state.is_leader
            self._followers = (
                followers_after_election(self._followers, state, now_ms, self.leader_epoch_start_offset)
                if stays_leader
                else None
            )

    def update_follower(self, follower: int, state: FollowerState) -> None:
        """Set the state of `follower` after its Fetch; `updateFollowerFetchState`."""
        if self._followers is None:
            self._followers = {}
        self._followers[follower] = state

    def update_isr(self, state: LocalPartitionState) -> None:
        """Set a state in which only the ISR, the partition epoch or the proposal differ."""
        self.state = state


HostedPartitions = Mapping[TopicPartition, Partition]


class StaleLeaderEpoch(NamedTuple):
    """A partition whose leader epoch in a control request is older than the known one."""

    topic_partition: TopicPartition
    offered: int
    known: int


def made_leader(
    before: LocalPartitionState, state: LeaderAndIsrPartitionState, topic_id: TopicId, now_ms: float
) -> LocalPartitionState:
    """The state after this replica has become leader (BK-8).

    A leader counts as recovered, whatever the request holds (IS-19).
    """
    made = _made(before, state, topic_id, Role.LEADER)
    return msgspec.structs.replace(made, isr=state.isr, leader_since_ms=now_ms)


def made_follower(
    before: LocalPartitionState, state: LeaderAndIsrPartitionState, topic_id: TopicId
) -> LocalPartitionState:
    """The state after this replica has become follower of a leader that is alive (BK-9). It keeps no ISR."""
    made = _made(before, state, topic_id, Role.FOLLOWER)
    return msgspec.structs.replace(made, leader_recovery_state=state.leader_recovery_state)


def _made(
    before: LocalPartitionState, state: LeaderAndIsrPartitionState, topic_id: TopicId, role: Role
) -> LocalPartitionState:
    """The part of a state that leaders and followers have in common."""
    return LocalPartitionState(
        topic_partition=before.topic_partition,
        topic_id=before.topic_id if topic_id == NO_TOPIC_ID else topic_id,
        role=role,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        replicas=state.replicas,
        adding_replicas=state.adding_replicas,
        removing_replicas=state.removing_replicas,
    )


def followers_after_election(
    followers: Mapping[int, FollowerState], state: LocalPartitionState, now_ms: float, leader_end_offset: int
) -> dict[int, FollowerState]:
    """The states of the followers after the leader was elected again; `resetReplicaState`.

    Members of the ISR count as caught up at `now_ms`, other replicas as never caught up.
    """
    return {
        follower: known._replace(
            last_caught_up_ms=now_ms if follower in state.isr else 0.0,
            last_fetch_ms=now_ms if follower in state.isr else 0.0,
            last_fetch_leader_end_offset=leader_end_offset,
            session=None,
        )
        for follower, known in followers.items()
        if follower in state.replicas
    }


def leadership_of(state: LeaderAndIsrPartitionState, topic_partition: TopicPartition) -> Leadership:
    """The event-log entry of an applied state. Its ISR is the request's, on followers too."""
    topic, number = topic_partition
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
