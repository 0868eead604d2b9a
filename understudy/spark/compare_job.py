"""Compares groups of runs in Spark, from tables in Parquet, with the functions of `understudy.history.compare`.

A group is the unit of work: Spark joins the tables, brings the runs of a group together, and a worker summarises them.
The driver gets summaries, whose size does not depend on the number of runs. So the runs of the largest group have to
fit into the memory of one worker, about a kilobyte each, and workers need numpy. The numbers are the same
as from `understudy.history.compare.comparison.compare`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from pyspark import RDD
from pyspark.sql import DataFrame, Row, SparkSession

from understudy.history.compare.comparison import Comparison, assemble, p_values_of, permutations_for, summarize
from understudy.history.compare.groups import (
    CannotCompare,
    Key,
    Observation,
    RunGroup,
    baseline_keys,
    check_failovers,
    check_settings,
    command_in_lake,
    observe_rows,
)
from understudy.history.lake.manifest import is_lake
from understudy.history.metrics.metric_tables import TABLES, Failover, Settings
from understudy.spark.context import Progress, SparkSettings, no_progress, spark_context, spark_errors
from understudy.spark.lake_tables import read_lake

TABLES_READ = ("settings", "totals", "failovers")
"""Names of the tables that a comparison reads."""

_Pair: TypeAlias = tuple[bool, RunGroup]
"""A group, and whether it is the baseline of its pair."""


def compare_folder(
    folder: Path,
    by: Sequence[str],
    baseline: Mapping[str, str],
    settings: SparkSettings,
    progress: Progress = no_progress,
) -> Comparison:
    """Compare the runs whose tables are in a folder, in a separate Spark. Raises as `compare_tables`.

    Raises:
        SparkFailed: Java did not start.
    """
    with spark_context(settings, progress) as context:
        tables = read_tables(SparkSession(context), folder)
        lake = str(folder) if is_lake(folder) else ""
        return compare_tables(tables, by, baseline, progress, lake=lake)


def read_tables(session: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """Open the tables of a lake, or the tables that `understudy replay --dir` has written into a folder.

    Raises:
        CannotCompare: the folder lacks one of them.
        LakeError: the lake is of a later format.
    """
    if is_lake(folder):
        return {name: read_lake(session, folder, name) for name in TABLES_READ}
    missing = [name for name in TABLES_READ if not (folder / name).is_dir()]
    if missing:
        expected = "expected tables as `understudy replay --dir` writes them"
        raise CannotCompare(f"{folder} lacks the table {', '.join(missing)}; {expected}")
    return {name: session.read.parquet(str((folder / name).absolute())) for name in TABLES_READ}


def compare_tables(
    tables: Mapping[str, DataFrame],
    by: Sequence[str],
    baseline: Mapping[str, str],
    progress: Progress = no_progress,
    *,
    lake: str = "",
) -> Comparison:
    """Compare groups of runs with equal values of the settings `by`; see
    `understudy.history.compare.comparison.compare`.

    Args:
        tables: `TABLES_READ`, each with the column `run` before its own.
        lake: the lake of the tables, for the commands that open its runs; empty for tables outside a lake.

    Raises:
        CannotCompare: a setting is unknown, no run has a failover, or `baseline` matches no run.
        SparkFailed: Spark cannot read the tables.
    """
    check_settings(by, "--by")
    check_settings(tuple(baseline), "--baseline")
    with spark_errors("the tables cannot be compared in Spark"):
        progress("bringing the runs of each group together")
        names = tuple(by)
        keyed = _observations(tables, lake).map(lambda run: (tuple(run.settings[name] for name in names), run))
        groups = keyed.groupByKey().map(_group).cache()
        sizes = dict(groups.map(lambda group: (group.key, group.failovers)).collect())
        check_failovers(sum(sizes.values()))
        pairs = baseline_keys(sizes, by, baseline)
        progress(f"summarising {len(sizes):,} groups")
        summaries = groups.map(summarize).collect()
        progress(f"comparing {len(pairs):,} groups with their baselines")
        members = groups.flatMap(partial(_members, pairs=pairs)).groupByKey()
        tested = dict(members.map(partial(_tested, permutations=permutations_for(pairs))).collect())
        groups.unpersist()
    return assemble(summaries, tested, pairs, by, baseline)


def _observations(tables: Mapping[str, DataFrame], lake: str) -> RDD[Observation]:
    """Join the rows of each run, and return its compared values."""
    settings = tables["settings"].selectExpr("run", f"struct({_columns('settings')}) AS settings")
    failovers = tables["failovers"].selectExpr("run", f"struct({_columns('failovers')}) AS failover")
    rows = (
        settings.join(tables["totals"].select("run", "leaderless_ms"), "run")
        .join(failovers.groupBy("run").agg({"failover": "collect_list"}), "run", "left")
        .toDF("run", "settings", "leaderless_ms", "failovers")
    )
    return rows.rdd.map(partial(_observed, lake=lake))


def _columns(table: str) -> str:
    return ", ".join(TABLES[table].__struct_fields__)


def _observed(row: Row, lake: str) -> Observation:
    failovers = msgspec.convert([each.asDict() for each in row["failovers"] or ()], list[Failover])
    return observe_rows(
        row["run"],
        msgspec.convert(row["settings"].asDict(), Settings),
        sorted(failovers, key=lambda failover: failover.epoch),
        row["leaderless_ms"],
        opened_by=command_in_lake(lake, row["run"]) if lake else "",
    )


def _group(found: tuple[Key, Iterable[Observation]]) -> RunGroup:
    key, runs = found
    return RunGroup(key=key, runs=tuple(sorted(runs, key=lambda run: run.run)))


def _members(group: RunGroup, pairs: Mapping[Key, Key]) -> Iterator[tuple[Key, _Pair]]:
    """Return the group for its own test, if it has one, and for the tests in which it is the baseline."""
    if group.key in pairs:
        yield group.key, (False, group)
    for key, baseline in pairs.items():
        if baseline == group.key:
            yield key, (True, group)


def _tested(found: tuple[Key, Iterable[_Pair]], permutations: int) -> tuple[Key, dict[str, float]]:
    key, members = found
    group, baseline = (member for _, member in sorted(members, key=lambda pair: pair[0]))
    return key, p_values_of(group, baseline, permutations)
