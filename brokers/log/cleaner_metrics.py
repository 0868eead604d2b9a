"""The metrics of the log cleaner. Mirrors the MBeans of `kafka.log.LogCleaner` and `kafka.log.LogCleanerManager`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from understudy.brokers.log.cleaning import CleaningStats
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading

_DIRECTORY: Final = "logDirectory"


def _gauge(kind: str, name: str, doc: str, tag: str = "") -> MBean:
    return MBean("kafka.log", kind, name, MetricKind.GAUGE, doc, tag)


UTILIZATION = _gauge(
    "LogCleaner", "max-buffer-utilization-percent", "How much of the buffer for keys the last compaction has used."
)
RECOPIED = _gauge("LogCleaner", "cleaner-recopy-percent", "The share of bytes that the last compaction has kept.")
CLEAN_TIME = _gauge("LogCleaner", "max-clean-time-secs", "How long the last compaction took.")
DELAY = _gauge(
    "LogCleaner",
    "max-compaction-delay-secs",
    "By how much a record exceeded its max.compaction.lag.ms when the last compaction began.",
)
DEAD_THREADS = _gauge("LogCleaner", "DeadThreadCount", "Always 0: the broker stops if its log cleaner fails.")
UNCLEANABLE = _gauge(
    "LogCleanerManager",
    "uncleanable-partitions-count",
    "Logs that cannot be compacted, because a batch cannot be read.",
    _DIRECTORY,
)
UNCLEANABLE_BYTES = _gauge(
    "LogCleanerManager", "uncleanable-bytes", "Bytes of these logs that should be compacted.", _DIRECTORY
)
DIRTY = _gauge("LogCleanerManager", "max-dirty-percent", "The dirty share of the dirtiest log.")
SINCE_LAST_RUN = _gauge(
    "LogCleanerManager", "time-since-last-run-ms", "Time since logs were last examined for compaction."
)

CLEANER_MBEANS = (
    UTILIZATION,
    RECOPIED,
    CLEAN_TIME,
    DELAY,
    DEAD_THREADS,
    UNCLEANABLE,
    UNCLEANABLE_BYTES,
    DIRTY,
    SINCE_LAST_RUN,
)
"""MBeans of the log cleaner, in the order of docs/reference/metrics.md."""


class CleanerMetrics:
    """What the cleaner has done last.

    Args:
        directory: the log directory.
        monotonic_ms: returns the time, in ms.
        uncleanable_bytes: counts the bytes of logs that cannot be compacted.

    Attributes:
        uncleanable: how many logs cannot be compacted.
    """

    def __init__(self, directory: str, monotonic_ms: Callable[[], float], uncleanable_bytes: Callable[[], int]) -> None:
        self.uncleanable = 0
        self._directory = directory
        self._monotonic_ms = monotonic_ms
        self._uncleanable_bytes = uncleanable_bytes
        self._last_run_ms = monotonic_ms()
        self._dirty_ratio = 0.0
        self._delay_ms = 0.0
        self._delay_of_last_ms = 0.0
        self._last = CleaningStats(0)
        self._clean_time_ms = 0.0

    def start_run(self, now_ms: float, dirty_ratio: float, delays_ms: Sequence[float]) -> None:
        """Note that logs were looked at: the share of the dirtiest one, and how overdue each is."""
        self._last_run_ms = now_ms
        self._dirty_ratio = dirty_ratio
        self._delay_ms = max(delays_ms, default=0.0)

    def finish_cleaning(self, stats: CleaningStats, elapsed_ms: float) -> None:
        """Note a compaction."""
        self._last = stats
        self._clean_time_ms = elapsed_ms
        self._delay_of_last_ms = self._delay_ms

    def readings(self) -> Iterator[MetricReading]:
        last = self._last
        yield MetricReading(UTILIZATION, int(100 * last.utilization))
        yield MetricReading(RECOPIED, 100 * last.counts.bytes_written // max(last.counts.bytes_read, 1))
        yield MetricReading(CLEAN_TIME, int(self._clean_time_ms / 1000))
        yield MetricReading(DELAY, int(self._delay_of_last_ms / 1000))
        yield MetricReading(DEAD_THREADS, 0)
        yield MetricReading(UNCLEANABLE, self.uncleanable, self._directory)
        yield MetricReading(UNCLEANABLE_BYTES, self._uncleanable_bytes(), self._directory)
        yield MetricReading(DIRTY, int(100 * self._dirty_ratio))
        yield MetricReading(SINCE_LAST_RUN, int(self._monotonic_ms() - self._last_run_ms))
