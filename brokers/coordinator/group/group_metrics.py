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


def _rate_and_count(name: str, what: str) -> tuple[MBean, MBean]:
    return _attribute(f"{name}-rate", f"{what} per second."), _attribute(f"{name}-count", f"{what} in all.")


LOAD_TIME_MAX = _attribute("partition-load-time-max", "The longest that loading a partition took lately, in ms.")
LOAD_TIME_AVERAGE = _attribute("partition-load-time-avg", "How long loading a partition took lately, in ms.")
COMMITS = _rate_and_count("offset-commit", "Committed offsets")
EXPIRATIONS = _rate_and_count("offset-expiration", "Expired offsets")
DELETIONS = _rate_and_count("offset-deletion", "Offsets that OffsetDelete has removed,")
REBALANCES = _rate_and_count("group-completed-rebalance", "Generations whose leader has assigned,")

GROUP_MBEANS: tuple[MBean, ...] = (
    OFFSETS,
    GROUPS,
    *BY_STATE.values(),
    LOAD_TIME_MAX,
    LOAD_TIME_AVERAGE,
    *COMMITS,
    *EXPIRATIONS,
    *DELETIONS,
    *REBALANCES,
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
        for (rate, count), stat in (
            (COMMITS, self.commits),
            (EXPIRATIONS, self.expirations),
            (DELETIONS, self.deletions),
            (REBALANCES, self.rebalances),
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
