"""Observes runs and summarises groups of them in Spark's workers.

Rows come with the values of Spark's columns. Contents are pickled: they never leave a job.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from understudy.history.compare.comparison import GroupSummary, p_values_of, summarize
from understudy.history.compare.groups import Key, Observation, RunGroup, command_in_lake, observe_rows
from understudy.history.metrics.incomplete_runs import older_row
from understudy.history.metrics.metric_tables import Failover, Settings, Totals
from understudy.spark.kernels.results import Result

GROUPED: Final = ("kind", "contents")
"""Columns of a group: its key as a kind, and the contents of its runs."""
TESTED: Final = ("kind", "members")
"""Columns of a test: the group's key as a kind; structs with the key of each of both groups, and their contents."""


def observe(
    rows: Iterable[dict[str, Any]], *, by: tuple[str, ...], missing: Mapping[str, str], lake: str, incomplete: bool
) -> Iterator[Result]:
    """Return the compared values of runs, with the key of the group as the kind, and the number of failovers.

    Args:
        rows: `run` and its rows `settings`, `totals` and `failovers`, as structs.
        missing: the first evidence that records are missing, by run.
        lake: the lake of the runs; empty without one.
        incomplete: keep runs with missing records.
    """
    for row in rows:
        run = row["run"]
        if incomplete or not missing.get(run):
            found = observe_rows(
                run,
                msgspec.convert(older_row(row["settings"]), Settings),
                msgspec.convert(older_row(row["totals"]), Totals),
                sorted(
                    (msgspec.convert(older_row(each), Failover) for each in row["failovers"] or ()),
                    key=lambda failover: failover.epoch,
                ),
                opened_by=command_in_lake(lake, run) if lake else "",
                missing=missing.get(run, ""),
            )
            yield Result(as_kind(tuple(found.settings[name] for name in by)), pickle.dumps(found), found.failovers)


def summarise(
    rows: Iterable[dict[str, Any]], *, work: Callable[[RunGroup], GroupSummary] = summarize
) -> Iterator[Result]:
    """Return the summary of each group; rows are as in `GROUPED`."""
    return (Result(row["kind"], pickle.dumps(work(_group(row["kind"], row["contents"])))) for row in rows)


def test(rows: Iterable[dict[str, Any]], *, permutations: int) -> Iterator[Result]:
    """Return the p values of each group against its baseline; rows are as in `TESTED`."""
    for row in rows:
        groups = {member["is_baseline"]: _group(member["kind"], member["contents"]) for member in row["members"]}
        yield Result(row["kind"], pickle.dumps(p_values_of(groups[False], groups[True], permutations)))


def as_kind(key: Key) -> str:
    return json.dumps(key)


def key_of(kind: str) -> Key:
    return tuple(json.loads(kind))


def _group(kind: str, contents: Iterable[bytes]) -> RunGroup:
    runs: Iterable[Observation] = map(pickle.loads, contents)
    return RunGroup(key=key_of(kind), runs=tuple(sorted(runs, key=lambda run: run.run)))
