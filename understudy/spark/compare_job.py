"""Compares groups of runs in Spark, from tables in Parquet, with the functions of `understudy.history.compare`.

A group is the unit of work: Spark joins the tables, brings the runs of a group together, and a worker summarises them.
The driver gets summaries, whose size does not depend on the number of runs. So the runs of the largest group have to
fit into the memory of one worker, about a kilobyte each, and workers need numpy. The numbers are the same as from
`understudy.history.compare.comparison.compare`.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession

from understudy.history.compare.comparison import Comparison, assemble, permutations_for
from understudy.history.compare.groups import (
    CannotCompare,
    IncompleteRun,
    Key,
    baseline_keys,
    check_runs,
    check_settings,
    command_in_lake,
)
from understudy.history.lake.columns import MISSING, TOTALS
from understudy.history.lake.lake import Lake
from understudy.history.lake.layout import is_lake
from understudy.history.metrics.incomplete_runs import first_evidence, older_row
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, Missing
from understudy.history.storage.paths import StoragePath, spark_url
from understudy.spark.distribution import contents, run_on_rows
from understudy.spark.failures import spark_errors
from understudy.spark.job_watch import described
from understudy.spark.kernels import comparing
from understudy.spark.lake_tables import read_lake
from understudy.spark.running import spark_running
from understudy.spark.sessions import functions_for
from understudy.spark.settings import Progress, SparkSettings, no_progress

TABLES_READ = ("settings", "totals", "failovers")
"""Names of the tables that a comparison reads, besides `missing`."""

_MISSING_ORDER = (*SORTED_BY[MISSING], "evidence", "witness")
_FIRST_MISSING = f"min_by(struct({', '.join(Missing.__struct_fields__)}), ({', '.join(_MISSING_ORDER)})) AS first"


class ComparedTables(NamedTuple):
    """Tables of runs, and the runs that are not known to be complete.

    Attributes:
        rows: `TABLES_READ`, each with the column `run` before its own, with the rows of all runs.
        missing: the first evidence that records are missing, by run; complete runs are left out.
        lake: the lake of the tables, for the commands that open its runs; empty for tables outside a lake.
    """

    rows: Mapping[str, DataFrame]
    missing: Mapping[str, str]
    lake: str


def compare_folder(
    folder: StoragePath,
    by: Sequence[str],
    baseline: Mapping[str, str],
    settings: SparkSettings,
    progress: Progress = no_progress,
    *,
    incomplete: bool = False,
) -> Comparison:
    """Compare the runs whose tables are in a folder, in a separate Spark. Raises as `compare_tables`.

    Raises:
        SparkFailed: Java did not start.
    """
    with spark_running(settings, progress) as spark:
        tables = read_tables(spark, folder)
        return compare_tables(tables, by, baseline, progress, incomplete=incomplete)


def read_tables(session: SparkSession, folder: StoragePath) -> ComparedTables:
    """Open the tables of a lake, or the tables that `understudy replay --dir` has written into a folder.

    Raises:
        CannotCompare: the folder lacks one of them.
        LakeError: the lake is of a later format.
    """
    if is_lake(folder):
        rows = {name: read_lake(session, folder, name, incomplete=True) for name in TABLES_READ}
        return ComparedTables(rows, Lake(folder).incomplete, str(folder))
    lacking = [name for name in (*TABLES_READ, MISSING) if not (folder / name).is_dir()]
    if lacking:
        expected = "expected tables as `understudy replay --dir` writes them; older ones have to be written again"
        raise CannotCompare(f"{folder} lacks the table {', '.join(lacking)}; {expected}")
    found = {name: session.read.parquet(spark_url(folder / name)) for name in (*TABLES_READ, MISSING)}
    with spark_errors("the tables cannot be compared in Spark"):
        first = found.pop(MISSING).groupBy("run").agg(functions_for(session).expr(_FIRST_MISSING)).collect()
        missing = {row["run"]: msgspec.convert(older_row(row["first"].asDict()), Missing) for row in first}
    return ComparedTables(found, {run: first_evidence([row]) for run, row in missing.items()}, "")


def compare_tables(
    tables: ComparedTables,
    by: Sequence[str],
    baseline: Mapping[str, str],
    progress: Progress = no_progress,
    *,
    incomplete: bool = False,
) -> Comparison:
    """Compare groups of runs with equal values of the settings `by`; see
    `understudy.history.compare.comparison.compare`.

    Args:
        incomplete: also use runs with missing records, without the values that are in doubt.

    Raises:
        CannotCompare: a setting is unknown, no run has a failover, all of them have missing records, or `baseline`
            matches no run.
        SparkFailed: Spark cannot read the tables.
    """
    check_settings(by, "--by")
    check_settings(tuple(baseline), "--baseline")
    spark = tables.rows[TOTALS].sparkSession
    with (
        spark_errors("the tables cannot be compared in Spark", spark),
        described(spark, "Understudy: comparing groups of runs"),
        contextlib.ExitStack() as kept,
    ):
        progress("bringing the runs of each group together")
        observed = _observations(tables, tuple(by), incomplete=incomplete).persist()
        kept.callback(observed.unpersist)
        counted = observed.groupBy("kind").agg({"number": "sum"}).toDF("kind", "failovers").collect()
        sizes = {comparing.key_of(row["kind"]): row["failovers"] for row in counted}
        without = _incomplete(tables)
        check_runs(len(sizes), sum(sizes.values()), () if incomplete else without)
        pairs = baseline_keys(sizes, by, baseline)
        # A number that is given is kept, so that groups are spread over all cores though their rows are small.
        groups = (
            observed.repartition(len(sizes), "kind")
            .groupBy("kind")
            .agg({"content": "collect_list"})
            .toDF(*comparing.GROUPED)
            .persist()
        )
        kept.callback(groups.unpersist)
        progress(f"summarising {len(sizes):,} groups")
        summaries = map(pickle.loads, contents(run_on_rows(groups, comparing.summarise)))
        progress(f"comparing {len(pairs):,} groups with their baselines")
        tested = _tested(groups, pairs) if pairs else {}
        return assemble(summaries, tested, pairs, by, baseline, incomplete=without, uses_incomplete=incomplete)


def _incomplete(tables: ComparedTables) -> tuple[IncompleteRun, ...]:
    return tuple(
        IncompleteRun(run=run, opened_by=command_in_lake(tables.lake, run) if tables.lake else "", missing=why)
        for run, why in sorted(tables.missing.items())
    )


def _observations(tables: ComparedTables, by: tuple[str, ...], *, incomplete: bool) -> DataFrame:
    """Join the rows of each run, and return its compared values."""
    settings, totals, failovers = (
        tables.rows[name].selectExpr("run", f"struct({', '.join(TABLES[name].__struct_fields__)}) AS {name}")
        for name in TABLES_READ
    )
    rows = (
        settings.join(totals, "run")
        .join(failovers.groupBy("run").agg({"failovers": "collect_list"}), "run", "left")
        .toDF("run", "settings", "totals", "failovers")
    )
    kernel = partial(comparing.observe, by=by, missing=dict(tables.missing), lake=tables.lake, incomplete=incomplete)
    return run_on_rows(rows, kernel)


def _tested(groups: DataFrame, pairs: Mapping[Key, Key]) -> dict[Key, dict[str, float]]:
    """Return the p values of each group that has a baseline."""
    sides = [
        (comparing.as_kind(key), comparing.as_kind(side), is_baseline)
        for key, baseline in pairs.items()
        for side, is_baseline in ((key, False), (baseline, True))
    ]
    session = groups.sparkSession
    members = (
        session.createDataFrame(sides, "test STRING, kind STRING, is_baseline BOOLEAN")
        .join(groups, "kind")
        .repartition(len(pairs), "test")
        .selectExpr("test", "struct(kind, contents, is_baseline) AS member")
        .groupBy("test")
        .agg({"member": "collect_list"})
        .toDF(*comparing.TESTED)
    )
    tests = run_on_rows(members, partial(comparing.test, permutations=permutations_for(pairs)))
    rows = tests.select("kind", "content").collect()
    return {comparing.key_of(row["kind"]): pickle.loads(bytes(row["content"])) for row in rows}
