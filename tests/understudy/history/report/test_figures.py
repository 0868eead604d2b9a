"""Figures of a page: their signs, their uncertainty, and how many decimal places they have."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from tests.foundation.eventlog.stories import killed_controller
from understudy.history.metrics.metric_tables import Failover, Missing, RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.missing import NO_LOG, MissingRecords
from understudy.history.reading.reader import read_lines
from understudy.history.reading.run_builder import run_records_of
from understudy.history.report.figures import Figures, padded
from understudy.history.report.replay import Replay
from understudy.history.report.report import PAGE, render
from understudy.history.writing import WIDTH


def killed(without: str = "") -> RunMetrics:
    """Measure a run; the log of one node may be missing."""
    records = [record for record in read_lines(killed_controller().lines).records if record.node != without]
    run = run_records_of(records)
    missing = [MissingRecords(0, run.signs.last_us, without, 0, NO_LOG, "it was removed", "broker-1/1#1")]
    return measure_records("run-1", run, missing if without else [])


def page_of(*runs: RunMetrics) -> list[str]:
    return render(Replay(runs=runs, findings=(), lines=50, engine="a test")).splitlines()


@pytest.mark.parametrize(
    ("value", "within", "shown"),
    [
        (6012.3456, 0.0, "6,012.346"),
        (6012.3456, 0.0123, "6,012.346 ± 0.013"),
        (6012.3456, 0.123, "6,012.35 ± 0.13"),
        (6012.3456, 1.31, "6,012.3 ± 1.4"),
        (6012.3456, 13.1, "6,012 ± 14"),
        (6012.3456, 1310.0, "6,012 ± 1,310"),
        (1.4, 1.41, "< 2.9"),
        (-1.4, 1.41, "< 2.9"),
        (0.0, 0.005, "< 0.005"),
    ],
)
def test_a_figure_has_no_more_digits_than_its_uncertainty_justifies(value: float, within: float, shown: str) -> None:
    assert Figures().within(value, within) == shown


def test_times_are_aligned_by_their_units() -> None:
    assert padded(["1.0 ms", "20.0 ms ?"], 8) == [" 1.0 ms  ", "20.0 ms ?"]
    assert padded(["1.0 ms", "20.0 ms"], 8) == ["  1.0 ms", " 20.0 ms"]


def test_the_page_of_a_run_without_the_log_of_its_second_controller_has_signs_at_its_figures() -> None:
    page = page_of(killed("broker-2"))
    assert page[:4] == [
        "Run run-1: 8.200 s ? from 2023-11-14 22:13:21 UTC ?, ≥ 3 nodes, ≥ 31 records",
        "  computed by a test",
        "  records of broker-2 are missing; figures that depend on them have a sign",
        "  ≥ at least; ? may be larger, smaller or another",
    ]
    assert "Controllers: ≥ 1; 200 ms ? without one" in page
    assert "  epoch   1  broker 1   from   0.210 s until 8.000 s: stop ?      ready after 20 ms" in page


def test_the_time_without_a_controller_is_at_most_what_is_on_record() -> None:
    records = [record for record in read_lines(killed_controller().lines).records if record.mono_ms < 9_000]
    run = run_records_of(record for record in records if record.node != "broker-2")
    missing = [MissingRecords(0, run.signs.last_us, "broker-2", 0, NO_LOG, "it was removed", "broker-1/1#1")]
    page = page_of(measure_records("run-1", run, missing))
    assert "Controllers: ≥ 1; ≤ 4.3 s without one" in page
    assert "  ≥ at least; ≤ at most, up to the end on record; ? may be larger, smaller or another" in page


def test_a_failover_over_several_machines_is_shown_with_its_uncertainty() -> None:
    run = killed()
    failover = msgspec.structs.replace(run.failovers[0], detection_within_ms=1.31, outage_within_ms=14.2)
    closer = msgspec.structs.replace(failover, election_ms=1.4, election_within_ms=1.41, doubt=("propagation_ms",))
    page = page_of(msgspec.structs.replace(run, failovers=(closer,)))
    place = next(number for number, line in enumerate(page) if line.startswith("Failover"))
    assert page[place : place + 6] == [
        "Failover to epoch 2: broker 1 → 2 (kill, noticed by broker-3), 3.05 s ± 14.2 ms without a controller",
        "  detection   3,000.0 ± 1.4 ms    ███████████████████████████████",
        "  election            < 2.9 ms    ▏",
        "  takeover           40.000 ms    ▍                               2 partitions, 2 brokers",
        "    of which reading 10 ms, deciding 25 ms, writing 5 ms",
        "  propagation        30.000 ms ?  ▎                               2 requests, none unanswered",
    ]
    assert "  ? may be larger, smaller or another; ± by the clocks of several machines" in page


def test_percentiles_of_many_runs_leave_out_figures_in_doubt_and_say_how_many() -> None:
    whole = killed()
    longer = msgspec.structs.replace(
        whole.failovers[0], outage_ms=9_999.0, detection_ms=9_000.0, doubt=("detection_ms", "outage_ms")
    )
    totals = msgspec.structs.replace(whole.totals, doubt=("controllers", "records", "without_controller_ms"))
    missing = (
        Missing(node="broker-3", incarnation=None, from_ms=0, until_ms=1, kind="no log", evidence="", witness=""),
    )
    partial = msgspec.structs.replace(whole, run="run-2", failovers=(longer,), totals=totals, missing=missing)
    page = page_of(whole, partial)
    assert page[:4] == [
        "2 runs, ≥ 100 records, ≥ 2 failovers",
        "  computed by a test",
        "  records of 1 run are missing",
        "  ≥ at least; ≤ at most, up to the end on record",
    ]
    causes = [line for line in page if line.startswith("  kill, 2×")]
    assert [line.split()[3:] for line in causes] == [["3,000.000", "10.000", "40.000", "30.000", "3,050.000"]]
    assert "  without the figures of 1 failover that missing records may change" in page
    assert f"  {'run-2':<40} ≤ 3,050.000 ms  ≥ 1 failover" in page


def in_doubt(failover: Failover) -> Failover:
    """Return a failover with every sign at every figure."""
    every = [name for name in failover.__struct_fields__ if name != "doubt"]
    return msgspec.structs.replace(
        failover, doubt=tuple(every), detection_within_ms=1_234.5, election_within_ms=0.0123, outage_within_ms=99.9
    )


def test_a_page_with_every_sign_fits() -> None:
    run = killed()
    marked = {}
    for name in ("reigns", "failovers", "partitions", "requests", "refusals", "fence_hits", "moments"):
        rows = [msgspec.structs.replace(row, doubt=row.__struct_fields__[1:]) for row in getattr(run, name)]
        marked[name] = tuple(in_doubt(row) if isinstance(row, Failover) else row for row in rows)
    totals = msgspec.structs.replace(
        run.totals, doubt=run.totals.__struct_fields__, leaderless_within_ms=1.5, without_controller_within_ms=3.3
    )
    missing = tuple(
        Missing(node=f"broker-{number}", incarnation=1, from_ms=0, until_ms=1, kind="no end", evidence="", witness="")
        for number in range(1, 40)
    )
    found = Replay(
        runs=(msgspec.structs.replace(run, totals=totals, missing=missing, **marked),),
        findings=(),
        lines=1,
        engine="a test",
    )
    for replay in (found, dataclasses.replace(found, runs=found.runs * 12)):
        page = render(replay).splitlines()
        assert max(map(len, page)) <= WIDTH
        assert len(page) <= PAGE + 15
        assert [line for line in page if line.endswith("…")] == []
