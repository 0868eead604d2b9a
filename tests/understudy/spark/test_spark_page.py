"""The programs in docs/guides/spark.md run as they are written there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import understudy.lake
import understudy.spark
from tests.shares import at_night
from tests.understudy.history.lake.lakes import take
from tests.understudy.spark.older_spark import needs_data_sources
from understudy.lake import Lake
from understudy.trials.seeds.seeds import run_seed

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
(OF_DATA_SOURCE,) = (program for program in PROGRAMS if 'spark.read.format("understudy")' in program)
TIMEOUT_S = 180.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs` and `lake`, as the page has them."""
    folder = tmp_path_factory.mktemp("page")
    for seed in (1, 2):
        run_seed(seed, 30, own_clocks=seed == 2, events=folder / "runs" / f"seed-{seed}")
    take(folder / "lake", folder / "runs")
    return folder


@at_night("tests of the lake call the same functions")
def test_the_programs_of_the_page_run_and_print_what_the_lake_holds(folder: Path) -> None:
    lake = Lake(folder / "lake")
    from_lake, by_type, from_arrow, times, by_sql, in_duckdb = [
        run_program(program, folder) for program in PROGRAMS if program != OF_DATA_SOURCE
    ]
    causes = lake.read("failovers")["cause"].to_pylist()
    for printed in (from_lake, by_sql, in_duckdb.replace("│", "|")):
        counted = re.findall(r"^\| *([a-z ]+)\| *(\d+) *\|", printed, re.MULTILINE)
        assert sorted((cause.strip(), int(count)) for cause, count in counted) == sorted(
            (cause, causes.count(cause)) for cause in set(causes)
        )
    assert "answered|p90_ms|" in by_sql
    assert "-- The records of the type RequestSent" in by_sql
    types = {name: lake.read(name).num_rows for name in lake.record_types}
    shown = re.findall(r"^\| *(\w+)\| *(\d+)\|", by_type, re.MULTILINE)
    assert [int(count) for _, count in shown[:20]] == sorted(types.values(), reverse=True)[:20]
    assert all(types[name] == int(count) for name, count in shown[:20])
    assert re.search(r"^\|seed-1\| *\d+\.\d+\|", by_type, re.MULTILINE)
    assert "'RequestSent'" in from_arrow
    assert from_arrow.count("'outage_ms'") == 3
    elected = re.findall(r"^\|(seed-\d)\|(broker-\d)\| *(\d+)\| *\d+\| *([\d.]+)\| *([\d.]+)\|$", times, re.MULTILINE)
    reigns = lake.read("reigns").sort_by([("run", "ascending"), ("elected_at_ms", "ascending")]).to_pylist()
    assert [found[:3] for found in elected] == [(row["run"], row["node"], str(row["incarnation"])) for row in reigns]
    for found, row in zip(elected, reigns, strict=True):
        assert float(found[3]) == pytest.approx(row["elected_at_ms"], abs=0.002)
    assert {found[0] for found in elected if float(found[4]) > 0} == {"seed-2"}, "its nodes have clocks of their own"


@needs_data_sources
@at_night("tests of the data source and the functions call the same")
def test_the_program_of_the_page_that_reads_logs_prints_what_the_lake_holds(folder: Path) -> None:
    sent = Lake(folder / "lake").read("RequestSent").select(["run", "api"]).to_pylist()
    printed = run_program(OF_DATA_SOURCE, folder)
    assert f"|seed-1|  LeaderAndIsr|{sent.count({'run': 'seed-1', 'api': 'LeaderAndIsr'}):>4}|" in printed


def run_program(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", [understudy.lake, understudy.spark])
def test_exported_names_exist_and_are_loaded_when_they_are_used(package: object) -> None:
    names = getattr(package, "__all__")  # noqa: B009  # of a module
    assert [getattr(package, name).__name__ for name in names] == names
    name = getattr(package, "__name__")  # noqa: B009
    program = f"import sys, {name}; print([name for name in ('pyarrow', 'pyspark') if name in sys.modules])"
    assert run_program(program, Path.cwd()) == "[]\n"
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(package, "Nothing")  # noqa: B009


@pytest.mark.parametrize("name", ["understudy.lake.Lake", "understudy.spark.register", "understudy.spark.read_lake"])
def test_a_missing_pyarrow_is_named(name: str) -> None:
    package, _, exported = name.rpartition(".")
    program = f"import sys; sys.modules['pyarrow'] = None; from {package} import {exported}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Apache Arrow is needed, which is not installed: pip install 'kafka-understudy[spark]'" in done.stderr
