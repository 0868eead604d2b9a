"""Spark compares runs from tables in Parquet, with the same numbers as plain Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.shares import at_night
from tests.understudy.history.lake.incomplete import let_be_incomplete
from tests.understudy.history.lake.lakes import take
from tests.understudy.spark.test_replay_job import write
from understudy.cli.main import main
from understudy.history.compare.comparison import Comparison, compare
from understudy.history.compare.groups import CannotCompare, command_in_lake, observe
from understudy.history.lake.lake import Lake
from understudy.history.report.replay import replay_in_python
from understudy.history.report.runs import find_logs
from understudy.spark.compare_job import TABLES_READ, compare_tables, read_tables
from understudy.spark.replay_job import SparkReplay

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep over two session timeouts and two faults, runs with several failovers, and one without settings."""
    folder = tmp_path_factory.mktemp("runs")
    grid = ["--session-timeout-ms", "2000,6000", "--fault", "kill,pause", "--partitions", "2", "--repeat", "7"]
    assert main(["sweep", *grid, "--dir", str(folder / "sweep")]) == 0
    for seed in range(6):
        write(RandomRun(seed, records=300).logs, folder / f"random-{seed}")
    write(killed_controller(), folder / "killed")
    return folder


@pytest.fixture(scope="module")
def tables(session: SparkSession, logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    SparkReplay(session, "Spark").replay(find_logs([logs]), output=folder)
    return folder


def in_spark(
    session: SparkSession, tables: Path, by: tuple[str, ...], baseline: dict[str, str], *, incomplete: bool = False
) -> Comparison:
    return compare_tables(read_tables(session, tables), by, baseline, incomplete=incomplete)


def test_the_comparison_is_that_of_plain_python(session: SparkSession, logs: Path, tables: Path) -> None:
    runs = [observe(run, "") for run in replay_in_python([logs]).runs]
    assert len(runs) == 35
    for by, baseline in (
        (("session_timeout_ms", "fault"), {"session_timeout_ms": "6000"}),
        (("world",), {}),
    ):
        expected = compare(runs, by, baseline, incomplete=True)
        found = in_spark(session, tables, by, baseline, incomplete=True)
        assert found == expected
        assert found.runs == 35
        assert bool(baseline) == (found.tests > 0)


def test_what_cannot_be_compared_is_named(session: SparkSession, tables: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotCompare, match="--by: colour is no setting"):
        in_spark(session, tables, ("colour",), {})
    with pytest.raises(CannotCompare, match="--baseline brokers=9 matches no run"):
        in_spark(session, tables, ("brokers",), {"brokers": "9"})
    with pytest.raises(CannotCompare, match="lacks the table settings, totals, failovers, missing; expected tables as"):
        in_spark(session, tmp_path, ("brokers",), {})


def test_runs_with_missing_records_are_left_out_as_in_plain_python(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a lake, and from tables outside a lake."""
    let_be_incomplete(monkeypatch, "cut-1", "cut-2")
    for name in ("cut-1", "cut-2", "whole-1", "whole-2"):
        write(killed_controller(name), tmp_path / "runs" / name)
    lake, folder = tmp_path / "lake", tmp_path / "tables"
    take(lake, tmp_path / "runs")
    metrics = replay_in_python([tmp_path / "runs"]).runs
    for name in (*TABLES_READ, "missing"):
        (folder / name).mkdir(parents=True)
        pq.write_table(Lake(lake).read(name, incomplete=True), folder / name / "part.parquet")
    for place in (lake, folder):
        runs = [observe(run, command_in_lake(str(lake), run.run) if place is lake else "") for run in metrics]
        for incomplete in (False, True):
            expected = compare(runs, ("world",), {}, incomplete=incomplete)
            assert in_spark(session, place, ("world",), {}, incomplete=incomplete) == expected
            assert (expected.runs, [run.run for run in expected.incomplete]) == (2 + 2 * incomplete, ["cut-1", "cut-2"])
    let_be_incomplete(monkeypatch, "cut-1", "cut-2", "whole-1", "whole-2")
    take(tmp_path / "all", tmp_path / "runs")
    with pytest.raises(
        CannotCompare, match=r"none of the runs is complete, for example cut-1: broker-4 lacks .*--run c"
    ):
        in_spark(session, tmp_path / "all", ("world",), {})


@at_night("each run compares the same groups as plain Python, and pages are made of them")
def test_the_command_prints_the_same_page_from_tables_as_from_logs(logs: Path, tables: Path) -> None:
    """The commands that open runs are missing: tables do not contain the logs' paths."""

    def page(*arguments: object) -> list[str]:
        command = [sys.executable, "-m", "understudy.cli.main", "compare", *map(str, arguments), "--by", "fault"]
        done = subprocess.run(
            [*command, "--baseline", "fault=kill"], capture_output=True, text=True, check=False, timeout=180
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("Worst runs")[0].splitlines()

    found = page(tables, "--spark", "local[1]", "--incomplete")
    assert found[0].startswith("35 runs, ")
    from_logs = page(logs, "--incomplete")
    assert found == [line for line in from_logs if "understudy replay" not in line]
