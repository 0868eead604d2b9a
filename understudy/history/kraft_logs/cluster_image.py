"""`ClusterImage` is the state of the cluster that the records of `__cluster_metadata` describe, up to some offset.

Mirrors `ClusterImage`, `TopicsImage` and `PartitionRegistration` of Kafka. `apply` takes the records of one batch
together: the controller appends what one event changes at once, for example new leaders and then the fencing of the
broker for which they are elected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from understudy.foundation.cluster.identifiers import TopicId
from understudy.foundation.eventlog.records import Leadership
from understudy.foundation.wire.messages.cluster_metadata import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from understudy.foundation.wire.schema import Message

RECOVERING: Final = 1
FENCE: Final = 1
UNFENCE: Final = -1

WITHOUT_BASE = "states of LeadershipWritten: the log begins after the creation of the partition"
NOTHING_CHANGED = "states of LeadershipWritten: neither the leader nor the ISR nor the assignment changed"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The registration of a broker."""

    broker_epoch: int
    is_fenced: bool
    is_shutting_down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition as the controller has registered it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery_state: int
    eligible: tuple[int, ...]
    """The eligible leader replicas (KIP-966)."""

    @classmethod
    def of(cls, record: PartitionRecord) -> PartitionState:
        return cls(
            replicas=record.replicas,
            isr=record.isr,
            adding=record.adding_replicas,
            removing=record.removing_replicas,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovery_state=record.leader_recovery_state,
            eligible=record.eligible_leader_replicas or (),
        )

    def merged(self, change: PartitionChangeRecord) -> PartitionState:
        """Return the state after a change. A change that names a leader raises the leader epoch, also the same one."""
        names_leader = change.leader != NO_LEADER_CHANGE
        keeps_recovery_state = change.leader_recovery_state == NO_RECOVERY_STATE_CHANGE
        return PartitionState(
            replicas=self.replicas if change.replicas is None else change.replicas,
            isr=self.isr if change.isr is None else change.isr,
            adding=self.adding if change.adding_replicas is None else change.adding_replicas,
            removing=self.removing if change.removing_replicas is None else change.removing_replicas,
            leader=change.leader if names_leader else self.leader,
            leader_epoch=self.leader_epoch + names_leader,
            partition_epoch=self.partition_epoch + 1,
            recovery_state=self.recovery_state if keeps_recovery_state else change.leader_recovery_state,
            eligible=self.eligible if change.eligible_leader_replicas is None else change.eligible_leader_replicas,
        )

    @property
    def assignment(self) -> tuple[tuple[int, ...], ...]:
        return self.replicas, self.adding, self.removing

    def leadership(self, topic: str, partition: int, controller_epoch: int) -> Leadership:
        return Leadership(
            topic=topic,
            partition=partition,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            partition_epoch=self.partition_epoch,
            controller_epoch=controller_epoch,
            leader_recovery_state=self.recovery_state,
        )


class WrittenState(NamedTuple):
    """A partition state and the reason for which the controller wrote it, as in `LeadershipWritten`."""

    topic: str
    partition: int
    why: str
    state: PartitionState


@dataclass(slots=True)
class Changes:
    """What the records of one batch changed.

    Attributes:
        registered: the brokers that registered, with their broker epochs.
        live_before: the brokers that were not fenced, with their broker epochs, before the batch; `live` after it.
        shutting_down: the brokers that began or ended their controlled shutdown.
        new_topics: the names of topics that were created; `deleted_topics`: of those that were deleted.
        assigned: the partitions whose replicas or eligible leader replicas changed: topic, number and state.
        states: the partition states.
    """

    registered: list[tuple[int, int]] = field(default_factory=list)
    live_before: dict[int, int] = field(default_factory=dict)
    live: dict[int, int] = field(default_factory=dict)
    shutting_down: list[int] = field(default_factory=list)
    new_topics: list[str] = field(default_factory=list)
    deleted_topics: list[str] = field(default_factory=list)
    assigned: list[tuple[str, int, PartitionState]] = field(default_factory=list)
    states: list[WrittenState] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


class ClusterImage:
    """The state of the cluster after the records that have been applied.

    Attributes:
        brokers: the registered brokers.
        topics: the names of the topics by their ids.
        partitions: the partitions of each topic.
        features: the level of each feature, for example `metadata.version`.
    """

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerState] = {}
        self.topics: dict[TopicId, str] = {}
        self.partitions: dict[TopicId, dict[int, PartitionState]] = {}
        self.features: dict[str, int] = {}

    @property
    def live(self) -> dict[int, int]:
        """The ids of the brokers that are not fenced, with their broker epochs."""
        return {broker: state.broker_epoch for broker, state in self.brokers.items() if not state.is_fenced}

    def named_partitions(self) -> Iterator[tuple[str, int, PartitionState]]:
        """Yield the topic, the number and the state of every partition, sorted."""
        named = ((self.topics[topic_id], partitions) for topic_id, partitions in self.partitions.items())
        for topic, partitions in sorted(named, key=lambda item: item[0]):
            for partition, state in sorted(partitions.items()):
                yield topic, partition, state

    def leaderships(self, controller_epoch: int) -> tuple[Leadership, ...]:
        """Return the leader and ISR of every partition, sorted."""
        return tuple(
            state.leadership(topic, partition, controller_epoch) for topic, partition, state in self.named_partitions()
        )

    def apply(self, records: Iterable[Message]) -> Changes:
        """Apply the records of one batch, and return what they changed."""
        changes = Changes(live_before=self.live)
        at_partitions: list[tuple[str, int, PartitionState | None, PartitionState]] = []
        leaving: set[int] = set()
        for record in records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                self._partition_changed(record, changes, at_partitions)
            elif isinstance(record, TopicRecord):
                self.topics[record.topic_id] = record.name
                self.partitions[record.topic_id] = {}
                changes.new_topics.append(record.name)
            elif isinstance(record, RemoveTopicRecord):
                self.partitions.pop(record.topic_id, None)
                if (name := self.topics.pop(record.topic_id, None)) is not None:
                    changes.deleted_topics.append(name)
            elif isinstance(record, FeatureLevelRecord):
                self.features[record.name] = record.feature_level
            else:
                self._broker_changed(record, changes, leaving)
        changes.live = self.live
        shutting_down = {broker for broker, state in self.brokers.items() if state.is_shutting_down}
        for topic, partition, before, after in at_partitions:
            if before is None or (before.replicas, before.eligible) != (after.replicas, after.eligible):
                changes.assigned.append((topic, partition, after))
            why = _reason(before, after, changes.live.keys() - leaving, shutting_down)
            if why is None:
                changes.left_out.append(NOTHING_CHANGED)
            else:
                changes.states.append(WrittenState(topic, partition, why, after))
        return changes

    def _partition_changed(
        self,
        record: PartitionRecord | PartitionChangeRecord,
        changes: Changes,
        found: list[tuple[str, int, PartitionState | None, PartitionState]],
    ) -> None:
        topic = self.topics.get(record.topic_id)
        partitions = self.partitions.get(record.topic_id, {})
        before = partitions.get(record.partition_id)
        if topic is None or (before is None and isinstance(record, PartitionChangeRecord)):
            changes.left_out.append(WITHOUT_BASE)
            return
        if isinstance(record, PartitionRecord):
            after = PartitionState.of(record)
        else:
            assert before is not None
            after = before.merged(record)
        partitions[record.partition_id] = after
        found.append((topic, record.partition_id, before, after))

    def _broker_changed(self, record: Message, changes: Changes, leaving: set[int]) -> None:
        if isinstance(record, RegisterBrokerRecord):
            state = BrokerState(record.broker_epoch, record.fenced, record.in_controlled_shutdown)
            known = self.brokers.get(record.broker_id)
            self.brokers[record.broker_id] = state
            # A broker that repeats its request is registered again, as it was.
            if known is None or known.broker_epoch != record.broker_epoch:
                changes.registered.append((record.broker_id, record.broker_epoch))
            if state.is_fenced:
                leaving.add(record.broker_id)
        elif isinstance(record, UnregisterBrokerRecord):
            self.brokers.pop(record.broker_id, None)
            leaving.add(record.broker_id)
        elif isinstance(record, FenceBrokerRecord):
            self._fenced(record.id, True, changes, leaving)
        elif isinstance(record, UnfenceBrokerRecord):
            self._fenced(record.id, False, changes, leaving)
        elif isinstance(record, BrokerRegistrationChangeRecord):
            if record.fenced:
                self._fenced(record.broker_id, record.fenced == FENCE, changes, leaving)
            state_before = self.brokers.get(record.broker_id)
            if record.in_controlled_shutdown and state_before is not None:
                self.brokers[record.broker_id] = replace(state_before, is_shutting_down=True)
                changes.shutting_down.append(record.broker_id)

    def _fenced(self, broker: int, is_fenced: bool, changes: Changes, leaving: set[int]) -> None:
        before = self.brokers.get(broker)
        if before is None:
            return
        self.brokers[broker] = replace(before, is_fenced=is_fenced)
        if is_fenced:
            leaving.add(broker)
            if before.is_shutting_down:
                changes.shutting_down.append(broker)


def _reason(
    before: PartitionState | None, after: PartitionState, live: set[int], shutting_down: set[int]
) -> str | None:
    """Return why the controller wrote a state, from the states before and after; None if nothing changed of leader, ISR
    and assignment.

    Args:
        live: the brokers that are not fenced, neither before the end of the batch nor by a record of it.
    """
    if before is None:
        return "initialise"
    if _is_unclean(before, after):
        return "unclean"
    if after.leader != before.leader:
        return _reason_of_election(before, after, live, shutting_down)
    if after.assignment != before.assignment:
        return "reassignment"
    removed = set(before.isr) - set(after.isr)
    if removed and not removed & (live - shutting_down):
        return "isr-removal"
    if after.isr != before.isr or after.recovery_state != before.recovery_state:
        return "alter-partition"
    return "reassignment" if after.leader_epoch != before.leader_epoch else None


def _is_unclean(before: PartitionState, after: PartitionState) -> bool:
    if after.leader in (before.leader, NO_LEADER) or after.recovery_state != RECOVERING:
        return False
    return before.recovery_state != RECOVERING or after.leader not in before.isr


def _reason_of_election(before: PartitionState, after: PartitionState, live: set[int], shutting_down: set[int]) -> str:
    if before.leader in shutting_down:
        return "controlled-shutdown"
    if before.leader == NO_LEADER or before.leader not in live:
        return "offline"
    if after.assignment != before.assignment or after.adding or after.removing:
        return "reassignment"
    return "preferred" if after.replicas[:1] == (after.leader,) else ""
