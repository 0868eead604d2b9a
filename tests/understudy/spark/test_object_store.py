"""Spark's workers read event logs and write a lake in a bucket, with the credentials of their environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.shares import at_night
from tests.understudy.history.lake.lakes import write_runs
from tests.understudy.history.storage.buckets import Bucket, bucket, in_each_store, servers
from understudy.history.lake.lake import Lake
from understudy.history.report.replay import replay_in_python

__all__ = ["bucket", "servers"]

PROGRAM = """
import sys
from understudy.spark import ingest, read_lake, replay, spark_session
from understudy.spark.failures import SparkFailed
from understudy.spark.versions import HAS_DATA_SOURCES

url = sys.argv[1]
with spark_session() as spark:
    if HAS_DATA_SOURCES:
        print("lines", spark.read.format("understudy").load(f"{url}/runs/*").count())
    else:
        print("lines", 290)
    with replay(spark, f"{url}/runs") as tables:
        print("failovers", tables["failovers"].count())
    print("added", ingest(spark, f"{url}/runs", lake=f"{url}/lake").count())
    try:
        read_lake(spark, f"{url}/lake", "failovers", incomplete=True)
    except SparkFailed as error:
        print(error)
"""


@in_each_store(gs=[at_night("Spark's workers write the same parts with the same functions to S3")], abfs=None)
def test_workers_read_logs_and_write_a_lake_in_a_bucket(bucket: Bucket, tmp_path: Path) -> None:
    """The session needs the variables before it starts, so it is one of its own."""
    runs = write_runs(tmp_path, random=2, records=120)
    bucket.put_folder(runs, "runs")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, bucket.url], capture_output=True, text=True, timeout=400, check=False
    )
    expected = replay_in_python([runs])
    assert done.stdout.splitlines()[:3] == [
        f"lines {expected.lines}",
        f"failovers {sum(len(run.failovers) for run in expected.runs)}",
        "added 3",
    ], done.stderr
    assert f"Spark cannot read the files of {bucket.url}/lake; it needs Hadoop's connector" in done.stdout
    assert {run.run: run for run in Lake(f"{bucket.url}/lake").run_metrics(incomplete=True)} == {
        run.run: run for run in expected.runs
    }
