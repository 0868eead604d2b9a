"""The metrics of groups. Mirrors the gauges of `kafka.coordinator.group.GroupMetadataManager`, and its sensors.

Groups are counted at each scrape, in one pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading
from understudy.foundation.metrics.sampled import SampledStat


def _gauge(name: str, doc: str) -> MBean:
    return MBean("kafka.coordinator.group", "GroupMetadataManager", name, MetricKind.GAUGE, doc)


OFFSETS = _gauge("NumOffsets", "Committed offsets of the groups that this broker coordinates.")
GROUPS = _gauge("NumGroups", "Groups that this broker coordinates.")
BY_STATE: Mapping[GroupState, MBean] = {
    state: _gauge(f"NumGroups{state.value}", f"Groups that are {state.value}.")
    for state in (
        GroupState.PREPARING_REBALANCE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
        GroupState.DEAD,
        GroupState.EMPTY,
    )
}


def _attribute(name: str, doc: str) -> MBean:
    return MBean("kafka.server", "group-coordinator-metrics", name, MetricKind.ATTRIBUTE, doc)


LOAD_TIME_MAX = _attribute("partition-load-time-max", "The longest that loading a partition took lately, in ms.")
LOAD_TIME_AVERAGE = _attribute("partition-load-time-avg", "How long loading a partition took lately, in ms.")
COMMIT_RATE = _attribute("offset-commit-rate", "Committed offsets per second.")
COMMIT_COUNT = _attribute("offset-commit-count", "Committed offsets in all.")
EXPIRATION_RATE = _attribute("offset-expiration-rate", "Expired offsets per second.")
EXPIRATION_COUNT = _attribute("offset-expiration-count", "Expired offsets in all.")
DELETION_RATE = _attribute("offset-deletion-rate", "Offsets that OffsetDelete has removed, per second.")
DELETION_COUNT = _attribute("offset-deletion-count", "Offsets that OffsetDelete has removed, in all.")
REBALANCE_RATE = _attribute("group-completed-rebalance-rate", "Generations whose leader has assigned, per second.")
REBALANCE_COUNT = _attribute("group-completed-rebalance-count", "Generations whose leader has assigned, in all.")

GROUP_MBEANS: tuple[MBean, ...] = (
    OFFSETS,
    GROUPS,
    *BY_STATE.values(),
    LOAD_TIME_MAX,
    LOAD_TIME_AVERAGE,
    COMMIT_RATE,
    COMMIT_COUNT,
    EXPIRATION_RATE,
    EXPIRATION_COUNT,
    DELETION_RATE,
    DELETION_COUNT,
    REBALANCE_RATE,
    REBALANCE_COUNT,
)
"""MBeans of groups, in the order of docs/reference/metrics.md."""


class GroupMeters:
    """Counts what the coordinator does. Mirrors the sensors of `GroupMetadataManager` and `GroupCoordinator`.

    Attributes:
        load_times: how long loading each partition took, in ms.
        commits: offsets that were committed.
        expirations: offsets that have expired.
        deletions: offsets that operators have deleted.
        rebalances: generations whose leader has sent its assignment.
    """

    def __init__(self, clock: Clock) -> None:
        self.load_times = SampledStat(clock)
        self.commits = SampledStat(clock)
        self.expirations = SampledStat(clock)
        self.deletions = SampledStat(clock)
        self.rebalances = SampledStat(clock)

    def readings(self) -> Iterator[MetricReading]:
        yield MetricReading(LOAD_TIME_MAX, self.load_times.maximum())
        yield MetricReading(LOAD_TIME_AVERAGE, self.load_times.average())
        for rate, count, stat in (
            (COMMIT_RATE, COMMIT_COUNT, self.commits),
            (EXPIRATION_RATE, EXPIRATION_COUNT, self.expirations),
            (DELETION_RATE, DELETION_COUNT, self.deletions),
            (REBALANCE_RATE, REBALANCE_COUNT, self.rebalances),
        ):
            yield MetricReading(rate, stat.rate())
            yield MetricReading(count, stat.total)


def group_readings(groups: Collection[GroupMetadata], meters: GroupMeters) -> Iterator[MetricReading]:
    """The gauges of the groups that a broker coordinates, and what it has done with them."""
    states = Counter(group.state for group in groups)
    yield MetricReading(OFFSETS, sum(len(group.offsets) for group in groups))
    yield MetricReading(GROUPS, len(groups))
    for state, mbean in BY_STATE.items():
        yield MetricReading(mbean, states[state])
    yield from meters.readings()
