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
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
from pyspark import RDD
from pyspark.sql import DataFrame, Row, SparkSession, functions

from understudy.history.compare.comparison import Comparison, assemble, p_values_of, permutations_for, summarize
from understudy.history.compare.groups import (
    CannotCompare,
    IncompleteRun,
    Key,
    Observation,
    RunGroup,
    baseline_keys,
    check_runs,
    check_settings,
    command_in_lake,
    observe_rows,
)
from understudy.history.lake.columns import MISSING
from understudy.history.lake.lake import Lake
from understudy.history.lake.manifest import is_lake
from understudy.history.metrics.incomplete_runs import first_evidence, older_row
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, Failover, Missing, Settings, Table, Totals
from understudy.spark.context import Progress, SparkSettings, no_progress, spark_context, spark_errors
from understudy.spark.lake_tables import read_lake

TABLES_READ = ("settings", "totals", "failovers")
"""Names of the tables that a comparison reads, besides `missing`."""

_MISSING_ORDER = (*SORTED_BY[MISSING], "evidence", "witness")
_FIRST_MISSING = f"min_by(struct({', '.join(Missing.__struct_fields__)}), ({', '.join(_MISSING_ORDER)})) AS first"

T = TypeVar("T", bound=Table)
_Pair: TypeAlias = tuple[bool, RunGroup]
"""A group, and whether it is the baseline of its pair."""


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
    folder: Path,
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
    with spark_context(settings, progress) as context:
        tables = read_tables(SparkSession(context), folder)
        return compare_tables(tables, by, baseline, progress, incomplete=incomplete)


def read_tables(session: SparkSession, folder: Path) -> ComparedTables:
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
    found = {name: session.read.parquet(str((folder / name).absolute())) for name in (*TABLES_READ, MISSING)}
    with spark_errors("the tables cannot be compared in Spark"):
        first = found.pop(MISSING).groupBy("run").agg(functions.expr(_FIRST_MISSING)).collect()
    return ComparedTables(found, {row["run"]: first_evidence([_row(row["first"], Missing)]) for row in first}, "")


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
    with spark_errors("the tables cannot be compared in Spark"):
        progress("bringing the runs of each group together")
        names = tuple(by)
        observed = _observations(tables)
        if not incomplete:
            observed = observed.filter(lambda run: not run.missing)
        keyed = observed.map(lambda run: (tuple(run.settings[name] for name in names), run))
        groups = keyed.groupByKey().map(_group).cache()
        sizes = dict(groups.map(lambda group: (group.key, group.failovers)).collect())
        without = _incomplete(tables)
        check_runs(len(sizes), sum(sizes.values()), () if incomplete else without)
        pairs = baseline_keys(sizes, by, baseline)
        progress(f"summarising {len(sizes):,} groups")
        summaries = groups.map(summarize).collect()
        progress(f"comparing {len(pairs):,} groups with their baselines")
        members = groups.flatMap(partial(_members, pairs=pairs)).groupByKey()
        tested = dict(members.map(partial(_tested, permutations=permutations_for(pairs))).collect())
        groups.unpersist()
    return assemble(summaries, tested, pairs, by, baseline, incomplete=without, uses_incomplete=incomplete)


def _incomplete(tables: ComparedTables) -> tuple[IncompleteRun, ...]:
    return tuple(
        IncompleteRun(run=run, opened_by=_opened_by(tables.lake, run), missing=why)
        for run, why in sorted(tables.missing.items())
    )


def _observations(tables: ComparedTables) -> RDD[Observation]:
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
    return rows.rdd.map(partial(_observed, missing=dict(tables.missing), lake=tables.lake))


def _observed(row: Row, missing: Mapping[str, str], lake: str) -> Observation:
    failovers = [_row(each, Failover) for each in row["failovers"] or ()]
    return observe_rows(
        row["run"],
        _row(row["settings"], Settings),
        _row(row["totals"], Totals),
        sorted(failovers, key=lambda failover: failover.epoch),
        opened_by=_opened_by(lake, row["run"]),
        missing=missing.get(row["run"], ""),
    )


def _row(row: Row, table: type[T]) -> T:
    """Return a row of one of `TABLES`."""
    return msgspec.convert(older_row(row.asDict()), table)


def _opened_by(lake: str, run: str) -> str:
    return command_in_lake(lake, run) if lake else ""


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
