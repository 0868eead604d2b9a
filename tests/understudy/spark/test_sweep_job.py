"""The sweeps of a lesson are measured in Spark with the same numbers as in Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from understudy.clusters.java import JavaNotFound, JavaRuntime, choose_java
from understudy.clusters.values import Span
from understudy.spark.context import SparkSettings
from understudy.spark.sweep_job import measure_in_spark
from understudy.trials.lessons.document import SweepPlan
from understudy.trials.lessons.sweeping import SweepNotRun, keep_median, measure_in_python, run_sweep

pytestmark = pytest.mark.xdist_group("spark sweep_job")


@pytest.fixture(scope="module")
def java() -> JavaRuntime:
    try:
        return choose_java()
    except JavaNotFound as reason:
        pytest.skip(f"Spark needs Java: {reason}")


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two sweeps, of an even and an odd number of runs, for the two kinds of median."""
    folder = tmp_path_factory.mktemp("sweeps")
    plans = {
        "one": SweepPlan(runs=6, partitions=2, session=Span(2_000, 2_000)),
        "other": SweepPlan(runs=5, session=Span(4_000, 4_000)),
    }
    return [run_sweep(plan, 3, folder / side) for side, plan in plans.items()]


def test_spark_and_python_agree_to_the_last_digit(java: JavaRuntime, sweeps: list[Path], tmp_path: Path) -> None:
    in_spark = measure_in_spark(sweeps, tmp_path / "lake", SparkSettings.with_class_cache(java))
    in_python = measure_in_python(sweeps)
    assert [len(table.rows) for table in in_spark] == [6, 5]
    for ours, theirs in zip(in_spark, in_python, strict=True):
        assert ours.rows == theirs.rows
        assert ours.facts == theirs.facts
        assert ours.measured_by.startswith("Spark ")
        assert ours.measured_by.endswith("from a lake with 11 runs")
        assert theirs.measured_by == "Python"


def test_runs_with_missing_records_are_left_out_and_counted(
    java: JavaRuntime, sweeps: list[Path], tmp_path: Path
) -> None:
    """The first run of one sweep lacks the log of a broker, as does each run of another."""
    cut, none = tmp_path / "cut", tmp_path / "none"
    shutil.copytree(sweeps[1], cut)
    first = min(cut.iterdir())
    shutil.rmtree(first / "broker-2")
    [table] = measure_in_python([cut])
    assert (len(table.rows), table.facts["runs"], table.left_out) == (4, 4, 1)
    assert first.name not in {row.run for row in table.rows}
    [in_spark] = measure_in_spark([cut], tmp_path / "lake", SparkSettings.with_class_cache(java))
    assert (in_spark.rows, in_spark.facts, in_spark.left_out) == (table.rows, table.facts, 1)
    assert in_spark.measured_by.endswith("from a lake with 5 runs")
    none.mkdir()
    first.rename(none / first.name)
    with pytest.raises(
        SweepNotRun, match=f"none of the 1 runs is complete, for example {first.name}: .* lacks records"
    ):
        measure_in_python([none])


def test_the_run_of_median_outage_is_kept(sweeps: list[Path], tmp_path: Path) -> None:
    copied = tmp_path / "sweep"
    shutil.copytree(sweeps[1], copied)
    [table] = measure_in_python([copied])
    logs = {path.name for path in (copied / table.rows[2].run).rglob("*.jsonl")}
    keep_median(copied, table)
    assert not copied.exists()
    assert {path.name for path in (tmp_path / "events").rglob("*.jsonl")} == logs
