"""Measures `understudy ingest` of many runs, and a query over the lake.

The reference of ingest is the project's goal. The query's reference is a scan of the same files without a question. The
query and the scan are separate commands, timed from the moment when their session has started. UNDERSTUDY_BENCH_RUNS
(150) sets the number of simulated runs, and UNDERSTUDY_BENCH_COPIES (10) how many copies of them are ingested.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks import measured_command
from benchmarks.many_runs import COPIES, copy_runs, simulate_runs
from benchmarks.measured_command import Measured
from benchmarks.rows import Row
from understudy.history.lake.lake import Lake

RECORDS_PER_S = 45_000

_TIMED = """
import sys, time
from understudy.spark import spark_session
from pyspark.sql import functions as F
with spark_session() as spark:
    began = time.perf_counter()
    {body}
    print(time.perf_counter() - began, flush=True)
"""

_QUERY = """
    from understudy.spark import read_lake, read_records
    read_records(spark, sys.argv[1]).groupBy("type").count().collect()
    waited = F.col("answered_at_ms") - F.col("sent_at_ms")
    read_lake(spark, sys.argv[1], "request_log").groupBy("run").agg(F.percentile(waited, 0.99)).collect()
"""

_SCAN = """
    from pathlib import Path
    def files(folder): return [str(path) for path in Path(sys.argv[1]).glob(folder + "/*.parquet")]
    spark.read.parquet(*files("records/*")).agg(F.count("*")).collect()
    requests = spark.read.parquet(*files("tables/request_log"))
    requests.agg(F.max("run"), F.max("sent_at_ms"), F.max("answered_at_ms")).collect()
"""


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        logs, lake = Path(folder) / "logs", Path(folder) / "lake"
        simulate_runs(logs / "0")
        for copy in range(1, COPIES):
            copy_runs(logs / "0", logs / str(copy), f"copy-{copy}-")
        return [*_ingest(logs, lake), *_query(lake)]


def _ingest(logs: Path, lake: Path) -> list[Row]:
    command = [sys.executable, "-m", "understudy.cli.main", "ingest", str(logs), "--lake", str(lake)]
    first, again = measured_command.run(command), measured_command.run(command)
    opened = Lake(lake)
    records = sum(entry.records for entry in opened.runs.values())
    parts = len(opened.files("tables", "totals"))
    name = f"ingest of {records:,} records, start included, µs each"
    return [
        Row(name, _each(first.seconds, records), 1e6 / RECORDS_PER_S, 1.0),
        Row("  processor time, µs each", _each(first.processor_seconds, records), None, None),
        Row("  memory of a worker, MB", first.worker_megabytes, None, None),
        Row(f"  the same again, {len(opened.runs):,} unchanged runs in {parts} parts, s", again.seconds, None, None),
    ]


def _query(lake: Path) -> list[Row]:
    query, scan = _timed(_QUERY, lake), _timed(_SCAN, lake)
    return [
        Row(
            "count by type and p99 per run, s in a fresh session, to a scan",
            float(query.output),
            float(scan.output),
            3.0,
        ),
        Row("  processor seconds with Spark's start", query.processor_seconds, scan.processor_seconds, None),
    ]


def _timed(body: str, lake: Path) -> Measured:
    return measured_command.run([sys.executable, "-c", _TIMED.format(body=body.strip()), str(lake)])


def _each(seconds: float, records: int) -> float:
    return seconds / records * 1e6
