"""Shows runs in a Jupyter notebook: their page, and their tables as DataFrames of pandas.

import understudy

understudy.show("runs/mine")
understudy.table("runs", "failovers")
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.extras import require
from understudy.history.metrics.incomplete_runs import IncompleteRunsLeftOut, first_evidence
from understudy.history.metrics.metric_tables import TABLES, RunMetrics, Table
from understudy.history.report.replay import replay_in_python
from understudy.page.export import page_of

if TYPE_CHECKING:
    from pandas import DataFrame

RUN_COLUMN = "run"


class NoCompleteRun(Exception):
    """Records of each of several runs are missing. The message has the evidence of one."""


class ShownRun:
    """The page of a run, which Jupyter shows in place of the value of a cell.

    Args:
        html: the page as one file.
        height: of the frame, in CSS pixels.
    """

    def __init__(self, html: str, height: int) -> None:
        self.html = html
        self.height = height

    def _repr_html_(self) -> str:
        # The frame has its own origin: the page can neither read the notebook nor run code in it.
        return (
            f'<iframe title="the page of a run" sandbox="allow-scripts" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )


def show(run: str | Path, *, height: int = 900) -> ShownRun:
    """Return the page of a run, for the last line of a cell. A run in progress is shown up to now.

    Args:
        run: a run folder, or a folder or file of event logs of one run.
        height: of the page, in CSS pixels.

    Raises:
        NoSuchRun: there are no event logs, or logs of several runs.
        TooLarge: the run is too large for one page.
    """
    return ShownRun(page_of([Path(run)]), height)


def table(run: str | Path, name: str, *, incomplete: bool = False) -> DataFrame:
    """Return a table of one or many runs (docs/reference/tables.md), with the id of the run as the first column.

    Args:
        run: a run folder, a folder of runs, or a file of event logs.
        name: for example `failovers`.
        incomplete: of several runs, also return those with missing records; otherwise they are left out, with a
            warning. The rows of a single run are always returned; their column `doubt` names the numbers in doubt.

    Raises:
        ValueError: there is no such table.
        FileNotFoundError: `run` has no event logs.
        NoCompleteRun: records of each of several runs are missing.
        MissingExtra: pandas is not installed.
    """
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    require("notebook")
    from pandas import DataFrame  # noqa: PLC0415  the extra `notebook`

    runs = replay_in_python([Path(run)]).runs
    if not runs:
        raise FileNotFoundError(f"{run} has no event logs; give a run folder, or a folder of runs")
    columns = TABLES[name].__struct_fields__
    if not incomplete and len(runs) > 1 and name != "missing":
        runs = _complete(runs, run)
    rows = [(each.run, *(getattr(row, column) for column in columns)) for each in runs for row in _rows(each, name)]
    return DataFrame(rows, columns=[RUN_COLUMN, *columns])


def _complete(runs: Sequence[RunMetrics], folder: str | Path) -> tuple[RunMetrics, ...]:
    """Return the complete runs; warn if others are left out, and raise NoCompleteRun if there is none."""
    missing = {run.run: first_evidence(run.missing) for run in runs if not run.is_complete}
    if missing:
        run, why = next(iter(missing.items()))
        example = f"for example {run}: {why}; incomplete=True also returns them"
        if len(missing) == len(runs):
            raise NoCompleteRun(f"none of the {len(runs):,} runs in {folder} is complete, {example}")
        left_out = f"{len(missing):,} of {len(runs):,} runs in {folder} are left out, because records are missing"
        warnings.warn(f"{left_out}, {example}", IncompleteRunsLeftOut, stacklevel=3)
    return tuple(run for run in runs if run.is_complete)


def _rows(run: RunMetrics, name: str) -> tuple[Table, ...]:
    found: Table | tuple[Table, ...] = getattr(run, name)
    return found if isinstance(found, tuple) else (found,)
