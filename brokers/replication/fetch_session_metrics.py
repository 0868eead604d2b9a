"""The metrics of a broker's fetch sessions. Mirrors the MBeans of `kafka.server.FetchSessionCache`."""

from __future__ import annotations

from collections.abc import Iterator

from understudy.brokers.replication.fetch_session_cache import FetchSessionCache
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading


def _mbean(name: str, kind: MetricKind, doc: str) -> MBean:
    return MBean("kafka.server", "FetchSessionCache", name, kind, doc)


SESSIONS = _mbean("NumIncrementalFetchSessions", MetricKind.GAUGE, "Fetch sessions that are open.")
PARTITIONS = _mbean(
    "NumIncrementalFetchPartitionsCached",
    MetricKind.GAUGE,
    "Partitions in these sessions, each counted once for each session.",
)
EVICTIONS = _mbean(
    "IncrementalFetchSessionEvictionsPerSec", MetricKind.METER, "Sessions that had to make room for others."
)

FETCH_SESSION_MBEANS = (SESSIONS, PARTITIONS, EVICTIONS)
"""MBeans of fetch sessions, in the order of docs/reference/metrics.md."""


def fetch_session_readings(cache: FetchSessionCache) -> Iterator[MetricReading]:
    yield MetricReading(SESSIONS, len(cache))
    yield MetricReading(PARTITIONS, cache.partitions)
    yield MetricReading(EVICTIONS, cache.evictions)
