"""The controller's metrics: which there are, and their values. Mirrors the MBeans of `kafka.controller`.

Timers and meters are updated as things happen. Counts of the cluster are taken on request, and again only after another
event (EQ-4), so that a takeover of 100,000 partitions pays for none. They show the cluster after an event, never in the
middle of one: a request during an event waits for its end, at most a second, and then returns the previous counts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from understudy.controller.context import ControllerContext
from understudy.controller.controller_state import ControllerState
from understudy.controller.transitions import ReplicaState
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.metrics.instruments import Histogram, Meter, Timer
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading

DOMAIN = "kafka.controller"

ZK_MIGRATION_STATE = 4
"""Number of `ZkMigrationState.ZK`: a cluster in ZooKeeper mode."""

COUNT_WAIT_MS = 1_000
"""Maximum time that a request for counts during an event waits for its end."""


def _gauge(name: str, doc: str, *, of: str = "KafkaController", tag: str = "") -> MBean:
    return MBean(DOMAIN, of, name, MetricKind.GAUGE, doc, tag)


ACTIVE_CONTROLLER_COUNT = _gauge("ActiveControllerCount", "1 on the broker that is controller, 0 on the others.")
CONTROLLER_STATE = _gauge("ControllerState", "What the event in progress is about; 0 while there is none.")
FENCED_BROKER_COUNT = _gauge("FencedBrokerCount", "Always 0: brokers are fenced in KRaft mode only.")
ZK_MIGRATION = _gauge("ZkMigrationState", "Always 4: the cluster keeps its metadata in ZooKeeper.")

COUNTS: Mapping[str, MBean] = {
    "offline_partitions": _gauge(
        "OfflinePartitionsCount", "Partitions without a leader, but for topics being deleted."
    ),
    "preferred_replica_imbalance": _gauge(
        "PreferredReplicaImbalanceCount", "Partitions that another replica than their preferred one leads."
    ),
    "topics": _gauge("GlobalTopicCount", "Topics."),
    "partitions": _gauge("GlobalPartitionCount", "Partitions that have, or had, a leader."),
    "topics_to_delete": _gauge("TopicsToDeleteCount", "Topics waiting to be deleted, or being deleted."),
    "replicas_to_delete": _gauge("ReplicasToDeleteCount", "Replicas of those topics that are not deleted yet."),
    "topics_ineligible_to_delete": _gauge(
        "TopicsIneligibleToDeleteCount", "Topics whose deletion has to wait for something."
    ),
    "replicas_ineligible_to_delete": _gauge(
        "ReplicasIneligibleToDeleteCount", "Replicas that cannot be deleted for now."
    ),
    "active_brokers": _gauge("ActiveBrokerCount", "Registered brokers, those that are leaving included."),
}
"""Gauges, by field of `Counts`. All are 0 if this broker is not controller."""

UNCLEAN_LEADER_ELECTIONS = MBean(
    DOMAIN,
    "ControllerStats",
    "UncleanLeaderElectionsPerSec",
    MetricKind.METER,
    "Elections of a leader from outside the ISR: data was lost.",
)
TIMERS: Mapping[ControllerState, MBean] = {
    state: MBean(
        DOMAIN,
        "ControllerStats",
        state.timer,
        MetricKind.TIMER,
        f"How often and how long the controller works on {state.label}.",
    )
    for state in ControllerState
    if state.timer is not None
}

EVENT_QUEUE_SIZE = _gauge("EventQueueSize", "Events waiting for the controller.", of="ControllerEventManager")
EVENT_QUEUE_TIME = MBean(
    DOMAIN, "ControllerEventManager", "EventQueueTimeMs", MetricKind.HISTOGRAM, "How long events have waited."
)
TOTAL_QUEUE_SIZE = _gauge(
    "TotalQueueSize", "Requests waiting to be sent to brokers, in all.", of="ControllerChannelManager"
)
QUEUE_SIZE = _gauge(
    "QueueSize", "Requests waiting to be sent to this broker.", of="ControllerChannelManager", tag="broker-id"
)
REQUEST_QUEUE_TIME = MBean(
    DOMAIN,
    "ControllerChannelManager",
    "RequestRateAndQueueTimeMs",
    MetricKind.TIMER,
    "How often requests leave for this broker, and how long they have waited.",
    tag="broker-id",
)
CURRENT_CONTROLLER_ID = MBean(
    "kafka.server",
    "MetadataLoader",
    "CurrentControllerId",
    MetricKind.GAUGE,
    "The controller as this broker knows it; -1 if it knows of none.",
)

MBEANS: tuple[MBean, ...] = (
    ACTIVE_CONTROLLER_COUNT,
    CONTROLLER_STATE,
    *COUNTS.values(),
    FENCED_BROKER_COUNT,
    ZK_MIGRATION,
    UNCLEAN_LEADER_ELECTIONS,
    *TIMERS.values(),
    EVENT_QUEUE_SIZE,
    EVENT_QUEUE_TIME,
    TOTAL_QUEUE_SIZE,
    QUEUE_SIZE,
    REQUEST_QUEUE_TIME,
    CURRENT_CONTROLLER_ID,
)


class Counts(NamedTuple):
    """The counts of the cluster, as `updateMetrics` computes them (MT-3)."""

    offline_partitions: int = 0
    preferred_replica_imbalance: int = 0
    topics: int = 0
    partitions: int = 0
    topics_to_delete: int = 0
    replicas_to_delete: int = 0
    topics_ineligible_to_delete: int = 0
    replicas_ineligible_to_delete: int = 0
    active_brokers: int = 0


def counted(context: ControllerContext) -> Counts:
    """Count, in one walk through all partitions."""
    not_deleted = ineligible = 0
    for topic in context.topics_to_be_deleted:
        for partition, assignment in context.assignments_for_topic(topic).items():
            for replica in assignment.replicas:
                state = context.replica_states.get(replica, {}).get(partition)
                not_deleted += state is not ReplicaState.DELETION_SUCCESSFUL
                ineligible += state is ReplicaState.DELETION_INELIGIBLE
    return Counts(
        offline_partitions=context.offline_partition_count,
        preferred_replica_imbalance=context.preferred_replica_imbalance_count,
        topics=len(context.all_topics),
        partitions=len(context.leadership),
        topics_to_delete=len(context.topics_to_be_deleted),
        replicas_to_delete=not_deleted,
        topics_ineligible_to_delete=len(context.topics_ineligible_for_deletion),
        replicas_ineligible_to_delete=ineligible,
        active_brokers=len(context.live_or_shutting_down_broker_ids),
    )


class ControllerStats:
    """Meters and timers of the controller, kept from the broker's start whether or not it is controller. Mirrors its
    Kafka namesake."""

    def __init__(self, clock: Clock) -> None:
        self.unclean_leader_elections = Meter(clock)
        self.timers: Mapping[ControllerState, Timer] = {state: Timer(clock) for state in TIMERS}

    def readings(self) -> Iterator[MetricReading]:
        yield MetricReading(UNCLEAN_LEADER_ELECTIONS, self.unclean_leader_elections)
        for state, mbean in TIMERS.items():
            yield MetricReading(mbean, self.timers[state])


class ClusterCounts:
    """Takes the counts of the cluster on request, while no event is in progress."""

    def __init__(self) -> None:
        self._counts = Counts()
        self._is_outdated = False
        self._wanted = False
        self._taken = asyncio.Event()

    def event_over(self, context: ControllerContext | None) -> None:
        """Note that an event has ended; `context` is None if this broker is not controller."""
        self._is_outdated = True
        if self._wanted:
            self._take(context)

    async def counts(self, context: ControllerContext | None, *, busy: bool) -> Counts:
        """Return the current counts, or the previous ones if an event takes too long.

        Args:
            context: of the term in progress, if there is one.
            busy: whether an event is in progress, so that the context may be half changed.
        """
        if busy:
            self._wanted = True
            self._taken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COUNT_WAIT_MS / 1000):
                    await self._taken.wait()
        elif self._is_outdated:
            self._take(context)
        return self._counts

    def _take(self, context: ControllerContext | None) -> None:
        self._counts = Counts() if context is None else counted(context)
        self._is_outdated = self._wanted = False
        self._taken.set()


class Channel(NamedTuple):
    """The readings of one broker's channel: requests that wait, and how long sent ones have waited."""

    queue_size: int
    queue_time: Timer


def event_queue_readings(size: int, queue_time: Histogram) -> Iterator[MetricReading]:
    yield MetricReading(EVENT_QUEUE_SIZE, size)
    yield MetricReading(EVENT_QUEUE_TIME, queue_time)


def channel_readings(channels: Mapping[BrokerId, Channel]) -> Iterator[MetricReading]:
    yield MetricReading(TOTAL_QUEUE_SIZE, sum(channel.queue_size for channel in channels.values()))
    for broker_id, channel in channels.items():
        yield MetricReading(QUEUE_SIZE, channel.queue_size, str(broker_id))
    for broker_id, channel in channels.items():
        yield MetricReading(REQUEST_QUEUE_TIME, channel.queue_time, str(broker_id))


def role_readings(
    *, is_active: bool, active_controller_id: BrokerId, state: ControllerState, counts: Counts
) -> Iterator[MetricReading]:
    yield MetricReading(ACTIVE_CONTROLLER_COUNT, int(is_active))
    yield MetricReading(CONTROLLER_STATE, state.value)
    for field, mbean in COUNTS.items():
        # The term may have ended while the counts were awaited.
        yield MetricReading(mbean, getattr(counts, field) if is_active else 0)
    yield MetricReading(FENCED_BROKER_COUNT, 0)
    yield MetricReading(ZK_MIGRATION, ZK_MIGRATION_STATE)
    yield MetricReading(CURRENT_CONTROLLER_ID, active_controller_id)
