"""The tables with a row for each request, leadership, event and fault: by hand, and against the tables of the page."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.foundation.eventlog.records import EventEnded, EventQueued, EventStarted, FaultInjected
from understudy.foundation.times import micros
from understudy.history.metrics.metric_tables import RunMetrics, Table
from understudy.history.metrics.metrics import measure_records, nearest_rank
from understudy.history.metrics.row_tables import ROW_TABLES, EventRow, FaultRow, LeadershipRow, RequestRow, rows
from understudy.history.reading.reader import read_lines
from understudy.history.reading.run_builder import run_records_of

R = TypeVar("R", bound=Table)


def rows_of(logs: Logs, kind: type[R]) -> list[R]:
    (name,) = (name for name, table in ROW_TABLES.items() if table is kind)
    found = list(rows(name, run_records_of(read_lines(logs.lines).records)))
    assert all(isinstance(row, kind) for row in found)
    return [row for row in found if isinstance(row, kind)]


def metrics_of(logs: Logs) -> RunMetrics:
    return measure_records(logs.run, run_records_of(read_lines(logs.lines).records))


def test_requests_of_a_run_with_a_killed_controller() -> None:
    found = rows_of(killed_controller(), RequestRow)
    assert [(row.event, row.api, row.to, row.sent_at_ms, row.answered_at_ms) for row in found] == [
        ("TopicChange", "LeaderAndIsr", 2, 620.0, 625.0),
        ("Reelect", "UpdateMetadata", 2, 5055.0, 5059.0),
        ("Reelect", "UpdateMetadata", 3, 5060.0, 5080.0),
    ]
    assert {(row.error, row.refused, row.failed_at_ms, row.failure) for row in found} == {("NONE", 0, None, "")}


def test_leaderships_of_a_run_with_a_killed_controller() -> None:
    found = [row for row in rows_of(killed_controller(), LeadershipRow) if row.partition == 0]
    assert [(row.why, row.leader, row.from_ms, row.until_ms, row.leaderless_ms) for row in found] == [
        ("initialise", 1, 610.0, 5020.0, 3020.0),
        ("loaded", 1, 5020.0, 5030.0, 10.0),
        ("offline", 2, 5030.0, 6400.0, 0.0),
        ("alter-partition", 2, 6400.0, 8100.0, 0.0),
    ]
    assert [row.isr for row in found][-1] == (2, 3, 1)


def test_a_fault_is_followed_by_the_failover_that_it_caused() -> None:
    kill, start, *stops = rows_of(killed_controller(), FaultRow)
    assert (kill.fault, kill.target, kill.role, kill.at_ms) == ("kill", "broker-1", "controller", 2000.0)
    assert (kill.ended_epoch, kill.next_epoch, kill.next_controller) == (1, 2, 2)
    assert (kill.detection_ms, kill.outage_ms, kill.elections) == (3000.0, 3050.0, 1)
    assert (start.fault, start.ended_epoch, start.next_epoch, start.outage_ms) == ("start", None, None, None)
    assert [(stop.fault, stop.ended_epoch, stop.next_epoch) for stop in stops] == [
        ("stop", None, None),
        ("stop", 2, None),
    ]


def test_an_event_is_one_row_from_its_queue_to_its_end() -> None:
    logs = Logs()
    logs.at(1.0, "broker-1", EventQueued(event_id=1, event="Startup"))
    logs.at(2.0, "broker-1", EventStarted(event_id=1, event="Startup", queued_ms=1.5))
    logs.at(5.0, "broker-1", EventEnded(event_id=1, event="Startup", took_ms=3.25, outcome="moved"))
    logs.at(6.0, "broker-1", EventQueued(event_id=2, event="Reelect"))
    first, second = rows_of(logs, EventRow)
    assert (first.queued_at_ms, first.started_at_ms, first.ended_at_ms) == (0.0, 1.0, 4.0)
    assert (first.queued_ms, first.took_ms, first.outcome, first.preempted_at_ms) == (1.5, 3.25, "moved", None)
    assert (second.event, second.started_at_ms, second.took_ms, second.outcome) == ("Reelect", None, None, "")


@pytest.mark.parametrize("seed", range(10))
def test_rows_add_up_to_the_tables_of_the_page(seed: int) -> None:
    logs = RandomRun(seed, records=400).logs
    metrics = metrics_of(logs)
    requests = rows_of(logs, RequestRow)
    for group in metrics.requests:
        own = [row for row in requests if (row.event, row.api) == (group.event, group.api)]
        waited = sorted(
            micros(row.answered_at_ms) - micros(row.sent_at_ms) for row in own if row.answered_at_ms is not None
        )
        assert (len(own), len(waited)) == (group.sent, group.answered)
        assert nearest_rank(waited, 50) == (None if group.p50_ms is None else micros(group.p50_ms))
        assert sum(row.failed_at_ms is not None for row in own) == group.failed
    leaderless: Counter[tuple[str, int]] = Counter()
    for row in rows_of(logs, LeadershipRow):
        leaderless[row.topic, row.partition] += micros(row.leaderless_ms)
    for partition in metrics.partitions:
        assert leaderless[partition.topic, partition.partition] == micros(partition.leaderless_ms)
    faults = rows_of(logs, FaultRow)
    assert len(faults) == sum(moment.kind != "step" for moment in metrics.moments)
    assert sum(row.elections for row in faults) <= sum(row.elected for row in metrics.elections)


def test_elections_are_counted_for_the_fault_before_them() -> None:
    logs = killed_controller()
    logs.at(900.0, "testbed", FaultInjected(fault="heal", target="broker-1 -> broker-2"))
    assert [row.elections for row in rows_of(logs, FaultRow)] == [2, 1, 0, 0, 0]
