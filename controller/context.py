"""`ControllerContext`: the controller's memory of the cluster. Mirrors its Kafka namesake.

Only the running event uses it, and leadership in it changes only to exactly what ZooKeeper accepted. Two things differ
from Kafka on purpose. Replica states are kept by broker, because every procedure goes through them by broker. The
counts that Kafka maintains on each change (offline partitions, leader imbalance) are counted on request: they cannot
become wrong (KAFKA-13572), and a takeover does not pay for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.assignment import NO_ASSIGNMENT, ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import (
    EPOCH_DURING_DELETE,
    NO_LEADER_EPOCH,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
)
from understudy.foundation.eventlog.records import leadership_digest


class ConflictingTopicId(Exception):
    """A topic was given a second id, or an id a second topic. The message names all three."""


class ControllerContext:
    """The cluster as one controller knows it, from its election to its resignation."""

    def __init__(self, *, epoch: int = 0, epoch_zk_version: int = 0) -> None:
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version
        self.changes = 0
        """Grows with every change of leadership, assignment, topic id or live brokers."""

        self.shutting_down_broker_ids: set[BrokerId] = set()
        self.replicas_on_offline_dirs: dict[BrokerId, set[TopicPartition]] = {}
        self.all_topics: set[str] = set()
        self.topic_ids: dict[str, TopicId] = {}
        self.topic_names: dict[TopicId, str] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.leadership: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[BrokerId, dict[TopicPartition, ReplicaState]] = {}
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

        self._brokers: dict[BrokerId, BrokerAndEpoch] = {}
        self._partitions_by_topic: dict[str, list[TopicPartition]] = {}

    # -- brokers

    @property
    def live_or_shutting_down_broker_ids(self) -> tuple[BrokerId, ...]:
        """All registered brokers, sorted."""
        return tuple(self._brokers)

    @property
    def live_broker_ids(self) -> tuple[BrokerId, ...]:
        """The registered brokers that are not shutting down, sorted: those that may join an ISR and lead."""
        return tuple(broker for broker in self._brokers if broker not in self.shutting_down_broker_ids)

    @property
    def live_or_shutting_down_brokers(self) -> tuple[Broker, ...]:
        return tuple(registered.broker for registered in self._brokers.values())

    @property
    def live_broker_epochs(self) -> dict[BrokerId, int]:
        return {broker: registered.epoch for broker, registered in self._brokers.items()}

    def broker(self, broker_id: BrokerId) -> Broker | None:
        registered = self._brokers.get(broker_id)
        return None if registered is None else registered.broker

    def broker_epoch(self, broker_id: BrokerId) -> int | None:
        registered = self._brokers.get(broker_id)
        return None if registered is None else registered.epoch

    def is_live_broker(self, broker_id: BrokerId) -> bool:
        return broker_id in self._brokers and broker_id not in self.shutting_down_broker_ids

    def add_live_brokers(self, brokers: Mapping[BrokerId, BrokerAndEpoch]) -> None:
        self._brokers = dict(sorted((self._brokers | dict(brokers)).items()))
        self.changes += 1

    def remove_live_brokers(self, broker_ids: Iterable[BrokerId]) -> None:
        for broker_id in broker_ids:
            self._brokers.pop(broker_id, None)
        self.changes += 1

    def update_broker_metadata(self, broker: Broker) -> None:
        """Replace a broker's endpoints and features; its epoch stays."""
        self._brokers[broker.id] = BrokerAndEpoch(broker, self._brokers[broker.id].epoch)

    # -- online brokers

    def online_brokers(self, *, include_shutting_down_brokers: bool = False) -> OnlineBrokers:
        """Return for each partition the live brokers, without those on which its log directory is offline (CX-1)."""
        ids = self._brokers if include_shutting_down_brokers else self.live_broker_ids
        offline_dirs = {broker: offline for broker, offline in self.replicas_on_offline_dirs.items() if offline}
        return OnlineBrokers(frozenset(ids), offline_dirs)

    # -- topics and assignments

    def add_topic_id(self, topic: str, topic_id: TopicId) -> None:
        """Remember the id of a topic.

        Raises:
            ConflictingTopicId: the topic has another id, or the id another topic.
        """
        known_id, known_topic = self.topic_ids.get(topic, topic_id), self.topic_names.get(topic_id, topic)
        if topic not in self.all_topics or known_id != topic_id or known_topic != topic:
            raise ConflictingTopicId(
                f"topic {topic!r} cannot take the id {topic_id}: it is known with id {self.topic_ids.get(topic)}, "
                f"and that id belongs to {self.topic_names.get(topic_id)}"
            )
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic
        self.changes += 1

    def partition_assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        return self.assignments.get(partition, NO_ASSIGNMENT)

    def update_partition_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        if partition not in self.assignments:
            self._partitions_by_topic.setdefault(partition.topic, []).append(partition)
        self.assignments[partition] = assignment
        self.changes += 1

    def partitions_for_topic(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(self._partitions_by_topic.get(topic, ()))

    def assignments_for_topic(self, topic: str) -> dict[TopicPartition, ReplicaAssignment]:
        return {partition: self.assignments[partition] for partition in self._partitions_by_topic.get(topic, ())}

    def partitions_by_replica(
        self, partitions: Iterable[TopicPartition] | None = None, *, only: Iterable[BrokerId] | None = None
    ) -> dict[BrokerId, list[TopicPartition]]:
        """Return for each broker the partitions it has a replica of, sorted by broker.

        Args:
            partitions: None stands for all.
            only: the brokers to include; None stands for all.
        """
        wanted = None if only is None else frozenset(only)
        found: dict[BrokerId, list[TopicPartition]] = {}
        for partition in self.assignments if partitions is None else partitions:
            for replica in self.partition_assignment(partition).replicas:
                if wanted is None or replica in wanted:
                    found.setdefault(replica, []).append(partition)
        return dict(sorted(found.items()))

    def remove_topic(self, topic: str) -> None:
        """Remove a topic and all its state (CX-7). Unlike Kafka also the partition and replica states, so that it can
        be created again (BUG-11)."""
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)
        self.all_topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for partition in self._partitions_by_topic.pop(topic, ()):
            for replica in self.assignments.pop(partition).replicas:
                self.replica_states.get(replica, {}).pop(partition, None)
            for offline in self.replicas_on_offline_dirs.values():
                offline.discard(partition)
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.partitions_being_reassigned.discard(partition)
        self.changes += 1

    # -- leadership

    def put_leadership(self, leadership: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]) -> None:
        """Remember states as ZooKeeper holds them."""
        self.leadership.update(leadership)
        self.changes += 1

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch for a StopReplica: a topic queued for deletion overrides any other epoch (CX-4)."""
        if partition.topic in self.topics_to_be_deleted:
            return EPOCH_DURING_DELETE
        known = self.leadership.get(partition)
        return NO_LEADER_EPOCH if known is None else known.leader_and_isr.leader_epoch

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_be_deleted

    def without_queued_topics(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        queued = self.topics_to_be_deleted
        return [partition for partition in partitions if partition.topic not in queued] if queued else list(partitions)

    def partitions_with_leaders(self) -> list[TopicPartition]:
        return self.without_queued_topics(self.leadership)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        online = self.online_brokers()
        return self.without_queued_topics(
            partition
            for partition, known in self.leadership.items()
            if known.leader_and_isr.leader not in online.of(partition)
        )

    def partition_leaders_on_broker(self, broker_id: BrokerId) -> list[TopicPartition]:
        """Return the partitions that `broker_id` leads and that have another replica."""
        return self.without_queued_topics(
            partition
            for partition, known in self.leadership.items()
            if known.leader_and_isr.leader == broker_id and len(self.partition_assignment(partition).replicas) > 1
        )

    # -- states

    def partitions_in(self, *states: PartitionState, topic: str | None = None) -> list[TopicPartition]:
        """Return the partitions in one of `states`, of all topics or of `topic`."""
        if topic is None:
            return [partition for partition, state in self.partition_states.items() if state in states]
        return [p for p in self.partitions_for_topic(topic) if self.partition_states.get(p) in states]

    def replica_state(self, broker: BrokerId, partition: TopicPartition) -> ReplicaState:
        """Return the state of a replica; NonExistentReplica if it is unknown."""
        return self.replica_states.get(broker, {}).get(partition, ReplicaState.NON_EXISTENT)

    # -- counts

    @property
    def offline_partition_count(self) -> int:
        """Return the number of offline partitions without the topics whose deletion has started (CX-2)."""
        return sum(
            partition.topic not in self.topics_with_deletion_started
            for partition in self.partitions_in(PartitionState.OFFLINE)
        )

    @property
    def preferred_replica_imbalance_count(self) -> int:
        """Partitions whose leader is not their preferred replica (CX-3)."""
        assignments, queued = self.assignments, self.topics_to_be_deleted
        return sum(
            not _has_preferred_leader(assignments.get(partition, NO_ASSIGNMENT), known.leader_and_isr)
            for partition, known in self.leadership.items()
            if partition.topic not in queued
        )

    def leadership_digest(self) -> str:
        """Return the digest that `ContextAtIdle` carries, for a checker to compare with the znodes."""
        return leadership_digest(
            (*partition, state.leader, state.leader_epoch, state.isr, state.partition_epoch)
            for partition, known in self.leadership.items()
            for state in (known.leader_and_isr,)
        )


def _has_preferred_leader(assignment: ReplicaAssignment, current: LeaderAndIsr) -> bool:
    replicas, adding = assignment.replicas, assignment.adding_replicas
    preferred = replicas[0] if replicas else None
    if adding and preferred in adding:
        # During a reassignment the new preferred replica counts only once it is in sync.
        return preferred not in current.isr
    return current.leader == preferred


class OnlineBrokers:
    """The online brokers of each partition: nearly always the same set for all, so it is built once."""

    def __init__(self, ids: frozenset[BrokerId], offline_dirs: Mapping[BrokerId, set[TopicPartition]]) -> None:
        self._ids = ids
        self._offline_dirs = offline_dirs

    def of(self, partition: TopicPartition) -> frozenset[BrokerId]:
        if not self._offline_dirs:
            return self._ids
        offline = frozenset(broker for broker, partitions in self._offline_dirs.items() if partition in partitions)
        return self._ids - offline
