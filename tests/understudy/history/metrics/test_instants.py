"""Figures between records of several machines say by how much their clocks allow them to be wrong."""

from __future__ import annotations

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller, silent_controllers
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.metrics.row_tables import FaultRow, LeadershipRow, rows
from understudy.history.reading.clocks import ClockPoint, MachineClock, RunClocks
from understudy.history.reading.reader import read_lines
from understudy.history.reading.run_builder import run_records_of
from understudy.history.reading.run_records import RunRecords


def on_three_machines(logs: Logs) -> RunRecords:
    """Broker 2 is on another machine, within 1 ms, and broker 3 on a third one, within 0.5 ms."""
    clocks = [
        MachineClock("host-1", "a", (ClockPoint(0, 0, 0),), "reference"),
        MachineClock(
            "host-2",
            "b",
            (ClockPoint(0, 5_000, 1_000), ClockPoint(90_000_000, 5_010, 1_000)),
            "messages",
        ),
        MachineClock("host-3", "c", (ClockPoint(0, -7_000, 500), ClockPoint(90_000_000, -7_000, 500)), "zxids"),
    ]
    run = run_records_of(read_lines(logs.lines).records)
    run.clocks = RunClocks(clocks, {("broker-2", 1): 1, ("broker-2", 2): 1, ("broker-3", 1): 2})
    return run


def measured(logs: Logs) -> RunMetrics:
    return measure_records("run", on_three_machines(logs))


def test_a_failover_over_three_machines_has_an_uncertainty_for_each_time_between_two_of_them() -> None:
    (row,) = measured(killed_controller()).failovers
    assert (row.cause, row.noticed_by, row.broker) == ("kill", "broker-3", 2)
    assert row.detection_within_ms == 0.5, "from the testbed on the first machine to the third one"
    assert row.election_within_ms == 1.5, "from the third machine to the second one"
    assert row.outage_within_ms == 1.0, "from the first machine to the second one"
    assert (row.time_within_ms("takeover"), row.time_within_ms("propagation")) == (0.0, 0.0), "in one process"


def test_times_without_a_controller_or_leader_are_as_uncertain_as_their_ends() -> None:
    metrics = measured(killed_controller())
    assert (metrics.totals.without_controller_ms, metrics.totals.without_controller_within_ms) == (3050.0, 1.0)
    assert [(row.leaderless_ms, row.leaderless_within_ms) for row in metrics.partitions] == [(3030.0, 1.0), (0.0, 0.0)]
    assert metrics.totals.leaderless_within_ms == 1.0


def test_a_loss_that_is_dated_from_its_notice_is_on_the_clock_of_the_node_that_noticed() -> None:
    first, second, _ = measured(silent_controllers()).failovers
    assert (first.detection_ms, first.detection_within_ms) == (2_000.0, 0.0), "a session timeout before the notice"
    assert first.outage_within_ms == 0.0, "broker 2 noticed and took over"
    assert (second.noticed_by, second.detection_within_ms) == ("broker-1", 0.0)


def test_rows_of_faults_and_leaderships_have_the_uncertainty_of_their_times() -> None:
    run = on_three_machines(killed_controller())
    faults = [row for row in rows("faults", run) if isinstance(row, FaultRow)]
    assert [(row.fault, row.detection_within_ms, row.outage_within_ms) for row in faults][:1] == [("kill", 0.5, 1.0)]
    spans = [row for row in rows("leaderships", run) if isinstance(row, LeadershipRow)]
    lost = [(row.why, row.leaderless_ms, row.leaderless_within_ms) for row in spans if row.leaderless_ms]
    assert lost == [("initialise", 3020.0, 1.0), ("loaded", 10.0, 0.0)], "the new controller read and wrote the state"
    assert {row.leaderless_within_ms for row in spans if not row.leaderless_ms} == {0.0}


def test_every_point_of_a_clock_is_a_row() -> None:
    points = [(row.node, row.machine, row.offset_ms, row.within_ms) for row in measured(killed_controller()).clocks]
    assert ("broker-1", "host-1", 0.0, 0.0) in points
    assert [point for point in points if point[0] == "broker-2"] == [
        ("broker-2", "host-2", 5.0, 1.0),
        ("broker-2", "host-2", 5.01, 1.0),
    ]


def test_a_run_on_one_clock_has_no_uncertainty_and_a_row_for_each_incarnation() -> None:
    metrics = measure_records("run", run_records_of(read_lines(killed_controller().lines).records))
    (row,) = metrics.failovers
    assert (row.detection_within_ms, row.election_within_ms, row.outage_within_ms) == (0.0, 0.0, 0.0)
    assert metrics.totals.without_controller_within_ms == 0.0
    assert [(row.node, row.incarnation, row.evidence) for row in metrics.clocks] == [
        ("broker-1", 1, "reference"),
        ("broker-1", 2, "reference"),
        ("broker-2", 1, "reference"),
        ("broker-3", 1, "reference"),
        ("testbed", 1, "reference"),
    ]
