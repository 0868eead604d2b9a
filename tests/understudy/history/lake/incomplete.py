"""Runs with missing records, for tests of numbers from many runs."""

from __future__ import annotations

import pytest

from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.missing import NO_LOG, MissingRecords
from understudy.history.reading.run_records import RunRecords

EVIDENCE = "broker-4 lacks records: broker-2 sent it a request (broker-2/1#7)"
"""The first evidence of the runs that `let_be_incomplete` makes incomplete, as pages show it."""


def let_be_incomplete(monkeypatch: pytest.MonkeyPatch, *incomplete: str) -> None:
    """Let these runs lack the log of broker 4, and all others be complete.

    `find_missing` has its own tests. Here a verdict is given, so that invented logs need not be whole.
    """

    def measure(run: str, records: RunRecords) -> RunMetrics:
        last_us = records.signs.last_us
        stretch = MissingRecords(0, last_us, "broker-4", 0, NO_LOG, "broker-2 sent it a request", "broker-2/1#7")
        return measure_records(run, records, [stretch] if run in incomplete else [])

    monkeypatch.setattr("understudy.history.report.replay.measure_records", measure)
