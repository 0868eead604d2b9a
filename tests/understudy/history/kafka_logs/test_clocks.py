"""Imports of logs whose machines have different wall clocks: the recorded samples, with the clocks of brokers moved.

The samples were recorded on one machine, so that the figures of their import as they are have no error.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from tests.understudy.history.kafka_logs.cluster_logs import BROKERS, SAMPLES, unpacked, with_another_clock
from tests.understudy.history.kafka_logs.recorded import recorded
from understudy.foundation.eventlog.records import ControllerReady, RunDescribed
from understudy.history.kafka_logs.clock_offsets import ZOOKEEPER, clock_of_broker
from understudy.history.kafka_logs.importer import ImportReport, LogInputs, import_logs
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.missing import find_missing
from understudy.history.reading.reader import find_files, read_runs

HOUR_MS = 3_600_000
BEGIN_MS = 1_795_344_376_658
"""The first time in the samples."""

Clock = Callable[[int], float]


def moved(by_ms: float, ppm: float = 0.0) -> Clock:
    """Return a wall clock that is wrong by a time and, from the beginning of the samples on, by a rate."""
    return lambda ms: ms + by_ms + (ms - BEGIN_MS) * ppm / 1e6


class Imported(NamedTuple):
    report: ImportReport
    metrics: RunMetrics
    folder: Path

    @property
    def widest_ms(self) -> float:
        """The largest uncertainty between any two clocks."""
        return 2 * max(point.within_us for own in self.report.clocks.clocks for point in own.clock.points) / 1000


def imported(
    folder: Path, clocks: Mapping[int, Clock], *, has_zookeeper: bool, has_one_clock: bool = False
) -> Imported:
    files = []
    for broker in BROKERS:
        own = unpacked(SAMPLES / f"broker-{broker}", folder / f"broker-{broker}")
        for file in sorted(own.iterdir()):
            if broker in clocks:
                with_another_clock(file, clocks[broker])
            files.append((broker, file))
    zookeeper = unpacked(SAMPLES / "version-2", folder / "version-2") if has_zookeeper else None
    inputs = LogInputs(files=files, pattern=LinePattern(), zookeeper_log=zookeeper, has_one_clock=has_one_clock)
    report = import_logs(inputs, folder / "events", run="moved")
    reading = read_runs(find_files([folder / "events"]).files)
    assert reading.findings == ()
    (run,) = reading.runs.values()
    assert find_missing(run) == ()
    return Imported(report, measure_records("moved", run), folder / "events")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, Imported]:
    """The samples as they are, as logs of one machine, with and without ZooKeeper's log."""
    return {
        has_zookeeper: imported(
            tmp_path_factory.mktemp("expected"), {}, has_zookeeper=has_zookeeper, has_one_clock=True
        )
        for has_zookeeper in (False, True)
    }


def figures(metrics: RunMetrics) -> dict[str, object]:
    """Return the values of the rows about controllers, failovers, partitions and the whole run, by table and column."""
    rows = {
        "totals": [metrics.totals],
        "reigns": metrics.reigns,
        "failovers": metrics.failovers,
        "partitions": metrics.partitions,
    }
    return {
        f"{table}[{number}].{name}": value
        for table, of_table in rows.items()
        for number, row in enumerate(of_table)
        for name, value in msgspec.structs.asdict(row).items()
        if name != "doubt"
    }


def in_doubt(metrics: RunMetrics) -> set[str]:
    """Return the figures that the order of two clocks could change, by table and column."""
    rows = {"totals": [metrics.totals], "reigns": metrics.reigns, "failovers": metrics.failovers}
    rows |= {"partitions": metrics.partitions}
    return {
        f"{table}[{number}].{name}"
        for table, of_table in rows.items()
        for number, row in enumerate(of_table)
        for name in row.doubt
    }


def assert_same_within_the_uncertainty(found: Imported, expected: Imported) -> None:
    """Each figure with ± differs by at most that, other times by at most the largest one, and nothing else differs."""
    here, there = figures(found.metrics), figures(expected.metrics)
    assert here.keys() == there.keys()
    open_figures = in_doubt(found.metrics)
    for name, value in there.items():
        value_here = here[name]
        if name in open_figures:
            continue
        if name.endswith("_within_ms") or name in ("totals[0].records", "totals[0].started_ms"):
            continue
        if not isinstance(value, float) or not isinstance(value_here, float):
            assert value_here == value, name
            continue
        within_ms = here.get(name.removesuffix("_ms") + "_within_ms")
        assert within_ms is None or isinstance(within_ms, float)
        assert abs(value_here - value) <= (found.widest_ms if within_ms is None else within_ms), name


def assert_same_records(found: Imported, expected: Imported) -> None:
    """Only some answers at the end of a reign may be left out, or not, as their times are uncertain."""
    here, there = (_records(one.report) for one in (found, expected))
    answers = [records.pop("ResponseReceived") for records in (here, there)]
    assert abs(answers[0] - answers[1]) <= 4
    assert here - Counter(RunDescribed=1) == there
    assert recorded(found.folder).reasons == recorded(expected.folder).reasons


def _records(report: ImportReport) -> Counter[str]:
    """Return the records by type, and those left out; a line is `StillRunning` only if no other record is as late."""
    found = report.records + report.left_out
    for name in ("StillRunning", "ResponseReceived: its controller logged nothing after it"):
        found.pop(name, None)
    return found


MOVES: Mapping[str, Mapping[int, Clock]] = {
    "hours": {3: moved(5 * HOUR_MS)},
    "hours, the controller": {1: moved(-7 * HOUR_MS)},
    "two brokers": {1: moved(-7 * HOUR_MS), 2: moved(3 * HOUR_MS)},
    "all brokers": {1: moved(HOUR_MS), 2: moved(-HOUR_MS), 3: moved(2 * HOUR_MS)},
    "700 ms": {2: moved(700)},
    "700 ms back": {3: moved(-700)},
    "700 ms, two brokers": {1: moved(-700), 3: moved(700)},
    "drift": {1: moved(0, 50)},
    "drift and hours": {1: moved(HOUR_MS, 50), 2: moved(-HOUR_MS, -50)},
}


@pytest.mark.parametrize("has_zookeeper", [False, True], ids=["brokers", "with ZooKeeper's"])
@pytest.mark.parametrize("move", MOVES)
def test_figures_of_several_wall_clocks_are_those_of_one_within_their_uncertainty(
    move: str, has_zookeeper: bool, expected: Mapping[bool, Imported], tmp_path: Path
) -> None:
    found = imported(tmp_path, MOVES[move], has_zookeeper=has_zookeeper)
    assert 0 < found.widest_ms < 400
    assert_same_within_the_uncertainty(found, expected[has_zookeeper])
    assert_same_records(found, expected[has_zookeeper])
    assert found.report.clocks.contradictions == ()


@pytest.mark.parametrize("seed", range(8))
def test_figures_are_the_same_for_any_clocks(seed: int, expected: Mapping[bool, Imported], tmp_path: Path) -> None:
    draw = random.Random(seed)
    clocks = {
        broker: moved(draw.choice((1.0, 1_000.0, 30 * 24 * HOUR_MS)) * draw.uniform(-1, 1), draw.uniform(-200, 200))
        for broker in BROKERS
        if draw.random() < 0.8
    }
    has_zookeeper = draw.random() < 0.5
    found = imported(tmp_path, clocks, has_zookeeper=has_zookeeper)
    assert_same_within_the_uncertainty(found, expected[has_zookeeper])
    assert_same_records(found, expected[has_zookeeper])


@pytest.mark.parametrize("has_zookeeper", [False, True], ids=["brokers", "with ZooKeeper's"])
def test_clocks_that_fit_stay_as_they_are(
    has_zookeeper: bool, expected: Mapping[bool, Imported], tmp_path: Path
) -> None:
    found = imported(tmp_path, {}, has_zookeeper=has_zookeeper)
    assert all(point.offset_us == 0 for own in found.report.clocks.clocks for point in own.clock.points)
    here, there = figures(found.metrics), figures(expected[has_zookeeper].metrics)
    changed = {name for name in there if here[name] != there[name]}
    assert {name for name in changed if not name.endswith("_within_ms")} == {"totals[0].records"}
    assert "failovers[0].outage_within_ms" in changed, "the figures have an uncertainty"
    assert found.report.records - Counter(RunDescribed=1) == expected[has_zookeeper].report.records


def test_records_have_the_wall_clock_of_their_line(expected: Mapping[bool, Imported], tmp_path: Path) -> None:
    found = imported(tmp_path, {1: moved(7 * HOUR_MS, 50)}, has_zookeeper=True)
    ((here, there),) = (
        tuple(
            {record.node: record.wall_ms for record in recorded(folder).records if type(record.data) is ControllerReady}
            for folder in (found.folder, expected[True].folder)
        ),
    )
    assert here["broker-1"] == int(moved(7 * HOUR_MS, 50)(int(there["broker-1"])))
    assert here["broker-2"] == there["broker-2"]


@pytest.mark.parametrize("has_zookeeper", [False, True], ids=["brokers", "with ZooKeeper's"])
def test_the_offset_of_a_clock_is_right_within_its_uncertainty(has_zookeeper: bool, tmp_path: Path) -> None:
    by_ms = {1: 0.0, 2: 5_000.0, 3: -3.0 * HOUR_MS}
    found = imported(tmp_path, {broker: moved(ms) for broker, ms in by_ms.items() if ms}, has_zookeeper=has_zookeeper)
    reference = found.report.clocks.of(clock_of_broker(1))
    assert reference is not None
    for own in found.report.clocks.clocks:
        if own.name[0] == ZOOKEEPER:
            continue
        there_ms = by_ms[int(own.name[0][-1])]
        for point in own.clock.points:
            wrong_ms = abs(point.offset_us / 1000 + there_ms - reference.clock.points[0].offset_us / 1000)
            assert wrong_ms <= (point.within_us + max(at.within_us for at in reference.clock.points)) / 1000


def test_a_wall_clock_that_is_wrong_by_more_than_a_second_is_named(tmp_path: Path) -> None:
    found = imported(tmp_path, {2: moved(2 * HOUR_MS), 3: moved(-700)}, has_zookeeper=True)
    texts = [str(own) for own in found.report.clocks.clocks]
    assert [
        text.partition(":")[0] for text in texts if text.endswith("this wall clock is wrong, or the others are")
    ] == ["broker 2"]
    assert texts[-1].startswith("broker 3: +")


def test_the_record_of_the_clocks_comes_before_all_others(tmp_path: Path) -> None:
    found = imported(tmp_path, {}, has_zookeeper=False)
    first = min(recorded(found.folder).records, key=lambda record: (record.mono_ms, record.node, record.seq))
    assert isinstance(first.data, RunDescribed)
    assert [clock.node for clock in first.data.aligned_clocks] == ["broker-1", "broker-2", "broker-3"]
