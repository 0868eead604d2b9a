"""The sweeps of a lesson are measured in Spark with the same numbers as in Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.shares import at_night
from understudy.clusters.java import JavaNotFound, JavaRuntime, choose_java
from understudy.clusters.values import Span
from understudy.spark.settings import SparkSettings
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


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep whose first run lacks the log of a broker."""
    plan = SweepPlan(runs=5, session=Span(3_000, 3_000))
    folder = run_sweep(plan, 3, tmp_path_factory.mktemp("sweeps") / "cut")
    shutil.rmtree(min(folder.iterdir()) / "broker-2")
    return folder


@at_night("comparisons of runs agree each time")
def test_spark_and_python_agree_to_the_last_digit(
    java: JavaRuntime, sweeps: list[Path], cut: Path, tmp_path: Path
) -> None:
    """All sweeps at once, because Spark starts anew each time."""
    folders = [*sweeps, cut]
    in_spark = measure_in_spark(folders, tmp_path / "lake", SparkSettings.with_class_cache(java))
    in_python = measure_in_python(folders)
    assert [(len(table.rows), table.left_out) for table in in_spark] == [(6, 0), (5, 0), (4, 1)]
    for ours, theirs in zip(in_spark, in_python, strict=True):
        assert ours.rows == theirs.rows
        assert ours.facts == theirs.facts
        assert ours.left_out == theirs.left_out
        assert ours.measured_by.startswith("Spark ")
        assert ours.measured_by.endswith("from a lake with 16 runs")
        assert theirs.measured_by == "Python"


def test_runs_with_missing_records_are_left_out_and_counted(cut: Path, tmp_path: Path) -> None:
    first = min(cut.iterdir())
    [table] = measure_in_python([cut])
    assert (len(table.rows), table.facts["runs"], table.left_out) == (4, 4, 1)
    assert first.name not in {row.run for row in table.rows}
    none = tmp_path / "none"
    shutil.copytree(first, none / first.name)
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
