"""Measures `understudy replay` on other Sparks: a Spark Connect server, older minors, and a driver with very many runs.

The environments of other minors are those that `make spark-versions` has made; a minor without one has no row.
UNDERSTUDY_BENCH_SHORT_RUNS (20,000) sets the number of runs for the memory of a driver.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import measured_command
from benchmarks.many_runs import write_short_runs
from benchmarks.measured_command import Measured
from benchmarks.rows import Row
from devtools.connect_server import ConnectServer
from devtools.spark_versions import FOLDER, VERSIONS
from understudy.clusters.java import choose_java

FEW_RUNS = 100
SHORT_RUNS = int(os.environ.get("UNDERSTUDY_BENCH_SHORT_RUNS", "20000"))

_TABLES = """
import sys
from pathlib import Path
from understudy.spark import replay
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings

with spark_running(SparkSettings.chosen()) as spark, replay(spark, sys.argv[1]) as tables:
    print(sum(tables[name].count() for name in ("totals", "moments")))
    tables["totals"].write.parquet(str(Path(sys.argv[1]) / "totals"))
"""


def rows(logs: Path, classic: Measured) -> list[Row]:
    """Measure the replay of some logs, which `classic` is of in this Spark; and the memory of a driver."""
    return [*_by_connect(logs, classic), *_by_older_sparks(logs), *_memory_of_a_driver()]


def _by_connect(logs: Path, classic: Measured) -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder,
        ConnectServer(Path(folder), choose_java()) as server,
    ):
        command = _replay(sys.executable, logs, "--master", server.url)
        first, next_one = measured_command.run(command), measured_command.run(command)
    yield Row("  by Spark Connect, first job of a server, s", first.seconds, classic.seconds, 1.15)
    yield Row("  by Spark Connect, its second job, s", next_one.seconds, classic.seconds, 1.15)


def _by_older_sparks(logs: Path) -> Iterator[Row]:
    pythons = {version.minor: FOLDER / version.minor / "bin" / "python" for version in VERSIONS}
    newest = VERSIONS[-1].minor
    there = [minor for minor, python in pythons.items() if python.exists() and minor != newest]
    if not there or not pythons[newest].exists():
        return
    reference = measured_command.run(_replay(str(pythons[newest]), logs))
    for minor in there:
        took = measured_command.run(_replay(str(pythons[minor]), logs))
        yield Row(f"  beside Spark {minor}, to {newest}, s", took.seconds, reference.seconds, 1.2)


def _memory_of_a_driver() -> Iterator[Row]:
    """The tables of runs stay in Spark, so the driver has no more than the names of their files."""
    took = []
    for count in (FEW_RUNS, SHORT_RUNS):
        with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
            write_short_runs(Path(folder), count)
            took.append(measured_command.run([sys.executable, "-c", _TABLES, folder]))
    few, many = took
    name = f"tables of {SHORT_RUNS:,} runs, to {FEW_RUNS}"
    yield Row(f"{name}: memory of the driver's Python, MB", many.own_megabytes, few.own_megabytes, 1.5)
    yield Row("  memory of its Java, MB", many.java_megabytes, few.java_megabytes, None)


def _replay(python: str, logs: Path, *options: str) -> list[str]:
    return [python, "-m", "understudy.cli.main", "replay", *options, str(logs)]
