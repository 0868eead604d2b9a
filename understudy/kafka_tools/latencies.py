"""Counts what a producer has sent, and prints rates and latencies. Mirrors `ProducerPerformance.Stats`."""

from __future__ import annotations

import math

from understudy.kafka_tools.console import Console

SAMPLES = 500_000
"""Number of latencies to keep: of `n * SAMPLES` records every n-th latency is kept."""
REPORT_MS = 5_000
_MB = 1024.0 * 1024.0


class Latencies:
    """The latencies of acknowledged records, in whole milliseconds.

    Args:
        expected: the number of records that will be sent.
        now_ms: the time of the first record.
    """

    def __init__(self, console: Console, expected: int, now_ms: float) -> None:
        self._console = console
        self._start_ms = self._window_start_ms = now_ms
        self._sampling = max(1, expected // min(expected, SAMPLES)) if expected > 0 else 1
        self._samples: list[int] = []
        self._count = self._bytes = self._total = self._largest = 0
        self._window_count = self._window_bytes = self._window_total = self._window_largest = 0

    def record(self, latency_ms: int, size: int, now_ms: float) -> None:
        """Count one record; print the rates since the last report if a report is due."""
        if self._count % self._sampling == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._total += latency_ms
        self._largest = max(self._largest, latency_ms)
        self._window_count += 1
        self._window_bytes += size
        self._window_total += latency_ms
        self._window_largest = max(self._window_largest, latency_ms)
        if now_ms - self._window_start_ms >= REPORT_MS:
            self._print_window(now_ms)

    def print_total(self, now_ms: float) -> None:
        """Print the rates and latencies of all records, with percentiles."""
        elapsed_ms = now_ms - self._start_ms
        ordered = sorted(self._samples) or [0]
        half, most, nearly_all, all_but_few = (
            ordered[min(int(share * len(self._samples)), len(ordered) - 1)] for share in (0.5, 0.95, 0.99, 0.999)
        )
        mean = _mean(self._total, self._count)
        self._console.print(
            f"{self._count} records sent, {_shown(_rate(self._count, elapsed_ms), 6)} records/sec "
            f"({_shown(_rate(self._bytes / _MB, elapsed_ms), 2)} MB/sec), {_shown(mean, 2)} ms avg latency, "
            f"{float(self._largest):.2f} ms max latency, {half} ms 50th, {most} ms 95th, {nearly_all} ms 99th, "
            f"{all_but_few} ms 99.9th."
        )

    def _print_window(self, now_ms: float) -> None:
        elapsed_ms = now_ms - self._window_start_ms
        self._console.print(
            f"{self._window_count} records sent, {_rate(self._window_count, elapsed_ms):.1f} records/sec "
            f"({_rate(self._window_bytes / _MB, elapsed_ms):.2f} MB/sec), "
            f"{_mean(self._window_total, self._window_count):.1f} ms avg latency, "
            f"{float(self._window_largest):.1f} ms max latency."
        )
        self._console.flush()
        self._window_start_ms = now_ms
        self._window_count = self._window_bytes = self._window_total = self._window_largest = 0


def _rate(count: float, elapsed_ms: float) -> float:
    """Return a count per second."""
    return 1000.0 * count / elapsed_ms if elapsed_ms > 0 else float("nan")


def _shown(number: float, digits: int) -> str:
    """Return a number as Java prints it."""
    return "NaN" if math.isnan(number) else f"{number:.{digits}f}"


def _mean(total: int, count: int) -> float:
    return total / count if count else float("nan")
