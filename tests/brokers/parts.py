"""Parts for tests of a broker: a clock, an event log in memory, a replica manager, LeaderAndIsr requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from tests.brokers.log.parts import open_log
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.log_config import log_config
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.replication.leader_and_isr_step import requested_states
from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.replica_manager import ReplicaManager
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.eventlog.fences import Fences, Switch
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)

ORDERS = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")
ME, OTHER, THIRD = 1, 2, 3
ORDERS_0 = TopicPartition("orders", 0)


class StillClock:
    """A clock that stands at `now_ms` until a test sets it."""

    def __init__(self, now_ms: float = 1_000.0) -> None:
        self.now_ms = now_ms

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> float:
        return self.now_ms


class Recorder:
    """An event log in memory, and the failures of the disk that were reported."""

    def __init__(self, clock: StillClock | None = None, *, detail: bool = False) -> None:
        self.lines: list[bytes] = []
        self.disk_failures: list[OSError] = []
        self.log = EventLog(
            run="test",
            node="broker-1",
            incarnation=1,
            clock=clock or StillClock(),
            write=self.lines.append,
            detail=detail,
        )

    def of(self, kind: str) -> list[dict[str, object]]:
        """The payloads of one type, in order."""
        decoded = [msgspec.json.decode(line) for line in self.lines]
        return [line["data"] for line in decoded if line["type"] == kind]


class LogsInMemory:
    """Stands for `LogManager`: the logs of partitions on a simulated disk, or one that a test gives to all of them."""

    def __init__(self, log: PartitionLog | None = None) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self._log = log

    def get_or_create(self, topic_partition: TopicPartition) -> PartitionLog:
        if topic_partition not in self.logs:
            self.logs[topic_partition] = self._log or open_log(topic_partition=topic_partition)
        return self.logs[topic_partition]

    def delete(self, topic_partition: TopicPartition) -> None:
        self.logs.pop(topic_partition, None)

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        for topic_partition, log in self.logs.items():
            if topic_partition.topic == topic:
                log.use_config(log_config(topic, overrides, KafkaConfig()))


class Fetchers:
    """Stands for `ReplicaFetcherManager`: keeps the partitions that are to be fetched."""

    def __init__(self) -> None:
        self.following: dict[TopicPartition, tuple[int, int]] = {}
        """Partition → (leader, leader epoch)."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.following[partition.topic_partition] = (partition.leader, partition.leader_epoch)

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in partitions:
            self.following.pop(topic_partition, None)

    def note_change(self, topic_partition: TopicPartition) -> None:
        """Nothing is fetched here, so nothing is to be named."""


def state(
    partition: int = 0,
    *,
    leader: int = ME,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    isr: tuple[int, ...] = (ME, OTHER),
    replicas: tuple[int, ...] = (ME, OTHER, THIRD),
    leader_recovery_state: int = 0,
) -> LeaderAndIsrPartitionState:
    """The state of one partition in a LeaderAndIsr request."""
    return LeaderAndIsrPartitionState(
        partition_index=partition,
        controller_epoch=1,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        partition_epoch=partition_epoch,
        replicas=replicas,
        leader_recovery_state=leader_recovery_state,
    )


def leader_and_isr(
    *states: LeaderAndIsrPartitionState,
    topic: str = "orders",
    topic_id: TopicId = ORDERS,
    controller_epoch: int = 1,
    broker_epoch: int = -1,
) -> LeaderAndIsrRequest:
    """A LeaderAndIsr request of controller 9 with `states` of one topic."""
    return LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=(LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=states),),
    )


def replica_manager(
    *states: LeaderAndIsrPartitionState,
    switched_off: Collection[Switch] = (),
    topic_id: TopicId = ORDERS,
    logs: LogsInMemory | None = None,
    clock: StillClock | None = None,
) -> tuple[ReplicaManager, Fetchers, Recorder]:
    """Create the replica manager of broker 1 and apply a LeaderAndIsr request with `states`; brokers 1 to 3 are alive.

    Args:
        logs: the partitions' logs; by default each is empty.
    """
    clock = clock or StillClock()
    recorder, fetchers = Recorder(clock), Fetchers()
    fences = Fences(recorder.log, switched_off=switched_off)
    manager = ReplicaManager(
        ME,
        fences=fences,
        fetchers=fetchers,
        logs=LogsInMemory() if logs is None else logs,
        clock=clock,
        is_alive=lambda broker: broker in (1, 2, 3),
        max_lag_ms=KafkaConfig().replica_lag_time_max_ms,
        on_disk_failure=recorder.disk_failures.append,
    )
    if states:
        apply_leader_and_isr(manager, leader_and_isr(*states, topic_id=topic_id))
    return manager, fetchers, recorder


def apply_leader_and_isr(
    manager: ReplicaManager,
    request: LeaderAndIsrRequest,
    *,
    alive: Collection[int] = (1, 2, 3),
    now_ms: float = 1_000.0,
) -> dict[TopicPartition, str]:
    """Apply `request` to `manager`, and return the name of the error for each partition."""
    step = manager.become_leader_or_follower(
        requested_states(request), is_alive=lambda broker: broker in alive, now_ms=now_ms
    )
    return {topic_partition: error.name for topic_partition, error in step.errors.items()}
