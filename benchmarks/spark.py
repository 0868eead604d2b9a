"""Measures `understudy replay` from command to page: a small run, many runs, ten times as many, and a huge one.

Event logs come from the simulator; copies of them get other run ids. The reference of a small run is the project's
goal. For many runs it is a bare scan of the same files by Spark, `spark.read.schema(…).json(…)` and a count of each
type, also as a command of its own. UNDERSTUDY_BENCH_RUNS (150) sets the number of simulated runs, and
UNDERSTUDY_BENCH_COPIES (10) the number of copies.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks import measured_command, spark_elsewhere
from benchmarks.huge_run import write_huge_run
from benchmarks.many_runs import COPIES, copy_runs, simulate_runs
from benchmarks.rows import Row
from understudy.clusters.java import choose_java
from understudy.spark import class_cache, class_cache_making
from understudy.trials.seeds.seeds import run_seed

_COMMAND = [sys.executable, "-m", "understudy.cli.main", "replay"]

_BARE_SCAN = """
import sys
from pathlib import Path
from understudy.clusters.java import choose_java
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings

SCHEMA = ("version BIGINT, run STRING, node STRING, incarnation BIGINT, seq BIGINT, mono_ms DOUBLE, wall_ms DOUBLE, "
          "type STRING, cause BIGINT, zxid BIGINT, controller_epoch BIGINT, data STRING")
with spark_running(SparkSettings(java=choose_java(), memory="2g")) as spark:
    files = [str(path) for path in Path(sys.argv[1]).rglob("*.jsonl")]
    lines = spark.read.schema(SCHEMA).json(files)
    print(sum(row["n"] for row in lines.groupBy("type").agg({"seq": "max", "*": "count"})
              .withColumnRenamed("count(1)", "n").collect()), flush=True)
"""


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        return [*_small(Path(folder)), *_many(Path(folder)), *_huge(Path(folder))]


def _small(folder: Path) -> list[Row]:
    run_seed(1, 15, events=folder / "small")
    without = measured_command.run([*_COMMAND, str(folder / "small")], {class_cache.VARIABLE: "off"})
    rows = [Row("one small run, command to page, without a cache of classes, s", without.seconds, 12.0, 1.0)]
    os.environ[class_cache.VARIABLE] = str(folder / "cache")
    try:
        if class_cache_making.make(choose_java()) is not None:
            cached = measured_command.run([*_COMMAND, str(folder / "small")])
            rows.append(Row("the same with the cache, s", cached.seconds, 8.0, 1.0))
            rows.append(Row("the same with the cache, processor seconds", cached.processor_seconds, 8.0, 1.0))
    finally:
        os.environ[class_cache.VARIABLE] = "off"
    return rows


def _many(folder: Path) -> list[Row]:
    logs = folder / "many" / "0"
    simulate_runs(logs)
    files = len(list(logs.rglob("*.jsonl")))
    scan = measured_command.run([sys.executable, "-c", _BARE_SCAN, str(logs)])
    records = int(scan.output)
    spark = measured_command.run([*_COMMAND, str(logs)])
    python = measured_command.run([*_COMMAND, "--engine", "python", str(logs)])
    name = f"{records:,} records, {files:,} files"
    rows = [
        Row(f"{name}: processor seconds, to a bare scan", spark.processor_seconds, scan.processor_seconds, 1.4),
        Row(
            "  in plain Python, processor seconds, to Spark's", python.processor_seconds, spark.processor_seconds, None
        ),
        Row("  seconds, to plain Python", spark.seconds, python.seconds, None),
        *spark_elsewhere.rows(logs, spark),
    ]
    if COPIES > 1:
        for copy in range(1, COPIES):
            copy_runs(logs, folder / "many" / str(copy), f"copy-{copy}-")
        everything = str(folder / "many")
        large = measured_command.run([*_COMMAND, everything])
        plain = measured_command.run([*_COMMAND, "--engine", "python", everything])
        each, each_before = large.processor_seconds / (records * COPIES), spark.processor_seconds / records
        rows += [
            Row(f"{records * COPIES:,} records: µs of processor a record", each * 1e6, each_before * 1e6, 1.0),
            Row("  seconds, to plain Python", large.seconds, plain.seconds, 1 / 1.3),
            Row("  memory of Java, MB", large.java_megabytes, None, None),
        ]
    return rows


def _huge(folder: Path) -> list[Row]:
    rows = []
    peaks = []
    for controllers in (5, 10):
        logs = folder / f"huge-{controllers}"
        write_huge_run(logs, partitions=100_000, controllers=controllers)
        megabytes = sum(path.stat().st_size for path in logs.iterdir()) / 1e6
        took = measured_command.run([*_COMMAND, str(logs)])
        peaks.append(took.worker_megabytes)
        name = f"one run, 100,000 partitions × {controllers} controllers ({megabytes:.0f} MB)"
        rows.append(Row(f"{name}, s", took.seconds, 25.0 if controllers == 5 else None, 1.0))
        rows.append(Row("  memory of Java, MB", took.java_megabytes, 512.0, 1.0))
    return [*rows, Row("  memory of a worker, 10 controllers to 5, MB", peaks[1], peaks[0], 1.1)]
