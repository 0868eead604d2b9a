"""Measures the sweeps of a lesson in Spark: their event logs go into a lake, and its tables are queried in SQL.

The numbers are the same as from `understudy.trials.lessons.sweeping.measure_in_python`, to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Row, SparkSession

from understudy.history.lake.ingest import find_logs, ingest
from understudy.history.lake.lake import Lake
from understudy.spark.failures import spark_errors
from understudy.spark.ingest_job import SparkEngine
from understudy.spark.lake_tables import read_lake
from understudy.spark.running import spark_running
from understudy.spark.settings import Progress, SparkSettings, no_progress
from understudy.trials.lessons.sweeping import TIMES, SweepRow, SweepTable, complete_runs

FIRST_FAILOVERS: Final = f"""
SELECT sweep, run, {", ".join(f"coalesce({name}, 0D) AS {name}" for name in TIMES)}
FROM (SELECT *, row_number() OVER (PARTITION BY run ORDER BY epoch) AS place FROM failovers)
JOIN sweeps USING (run)
WHERE place = 1
"""
"""Query for the first failover of each run."""

NUMBERS: Final = f"""
SELECT sweep, count(*) AS runs,
  {", ".join(f"percentile({name}, 0.5D) AS median_{name}" for name in TIMES)},
  min(outage_ms) AS shortest_outage_ms, max(outage_ms) AS longest_outage_ms,
  100 * sum(bigint(round(detection_ms * 1000))) / sum(bigint(round(outage_ms * 1000))) AS detection_share
FROM first_failovers
GROUP BY sweep
"""
"""Query for the numbers of each sweep."""


def measure_in_spark(
    sweeps: Sequence[Path], lake: Path, settings: SparkSettings, progress: Progress = no_progress
) -> list[SweepTable]:
    """Bring the runs of sweeps into a lake, and return the table of each sweep. All of it runs in one Spark.

    Args:
        sweeps: folders that have the event logs of a run in each folder below; runs have the names of their folders.
        lake: a new folder.

    Raises:
        SparkFailed: Java did not start, or Spark does not run, or cannot read the lake.
        LakeError: there are no logs.
        SweepNotRun: no run of a sweep is complete.
        OSError: the lake cannot be written.
    """
    with spark_running(settings, progress) as spark:
        ingest(find_logs(sweeps), lake, lambda size: SparkEngine(spark), progress)
        progress("asking the lake")
        with spark_errors(f"the tables of {lake} cannot be read in Spark"):
            return _asked(spark, lake, sweeps, settings.engine)


def _asked(session: SparkSession, lake: Path, sweeps: Sequence[Path], engine: str) -> list[SweepTable]:
    read_lake(session, lake, "failovers", incomplete=True).createOrReplaceTempView("failovers")
    missing = Lake(lake).incomplete
    complete = [complete_runs(sweep, missing) for sweep in sweeps]
    runs = [(number, run) for number, found in enumerate(complete) for run in found]
    session.createDataFrame(runs, "sweep INT, run STRING").createOrReplaceTempView("sweeps")
    first = session.sql(FIRST_FAILOVERS).cache()
    first.createOrReplaceTempView("first_failovers")
    rows = first.orderBy("sweep", "outage_ms", "run").collect()
    numbers = {row["sweep"]: row for row in session.sql(NUMBERS).collect()}
    return [
        SweepTable(
            rows=tuple(_row(row) for row in rows if row["sweep"] == number),
            facts={name: value for name, value in numbers[number].asDict().items() if name != "sweep"},
            measured_by=f"{engine}, from a lake with {len(runs) + len(missing)} runs",
            left_out=len(list(sweep.iterdir())) - len(complete[number]),
        )
        for number, sweep in enumerate(sweeps)
    ]


def _row(row: Row) -> SweepRow:
    return SweepRow(run=row["run"], **{name: row[name] for name in TIMES})
