"""Shows runs in a Jupyter notebook: their page, pictures of their failovers, and their tables as DataFrames of pandas.

import understudy

understudy.show("runs/mine")
understudy.plot("runs", by=["session_timeout_ms"])
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
from understudy.history.metrics.metric_tables import TABLES, Failover, RunMetrics, Table
from understudy.history.metrics.settings import SETTING_NAMES
from understudy.history.report.html_page import picture_page
from understudy.history.report.pictures import SEPARATOR, by_cause
from understudy.history.report.replay import replay_in_python
from understudy.page.export import page_of

if TYPE_CHECKING:
    from pandas import DataFrame

RUN_COLUMN = "run"
_FRAME_PX = 240
"""Height of a frame with a picture, without the groups of the picture."""
_GROUP_PX = 110


class NoCompleteRun(Exception):
    """Records of each of several runs are missing. The message has the evidence of one."""


class ShownRun:
    """The page of a run, or of pictures, which Jupyter shows in place of the value of a cell.

    Args:
        html: the page as one file.
        height: of the frame, in CSS pixels.
        title: of the frame.
    """

    def __init__(self, html: str, height: int, title: str = "the page of a run") -> None:
        self.html = html
        self.height = height
        self.title = title

    def _repr_html_(self) -> str:
        # The frame has its own origin: the page can neither read the notebook nor run code in it.
        return (
            f'<iframe title="{escape(self.title)}" sandbox="allow-scripts" srcdoc="{escape(self.html)}" '
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


def plot(runs: str | Path, by: Sequence[str] = (), *, incomplete: bool = False, height: int | None = None) -> ShownRun:
    """Return a picture of the failovers of runs: each outage as a dot, medians, and the mean phases, in groups.

    Args:
        runs: a run folder, a folder of runs, or a file of event logs.
        by: settings that make the groups, for example `session_timeout_ms`; without any, what ended the controller.
        incomplete: as in `table`.
        height: of the frame, in CSS pixels; by default it has room for the picture.

    Raises:
        ValueError: there is no such setting.
        FileNotFoundError: `runs` has no event logs.
        NoCompleteRun: records of each of several runs are missing.
    """
    if unknown := [name for name in by if name not in SETTING_NAMES]:
        raise ValueError(f"there is no setting {unknown[0]!r}; the settings are {', '.join(SETTING_NAMES)}")
    found = _runs_in(runs)
    if not incomplete and len(found) > 1:
        found = _complete(found, runs)

    def by_settings(run: RunMetrics, failover: Failover) -> str:
        return SEPARATOR.join(f"{getattr(run.settings, name)}" for name in by)

    group_of = by_settings if by else by_cause
    groups = {group_of(run, failover) for run in found for failover in run.failovers}
    return ShownRun(
        picture_page(found, group_of), height or _FRAME_PX + _GROUP_PX * len(groups), "the failovers of runs"
    )


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

    runs = _runs_in(run)
    columns = TABLES[name].__struct_fields__
    if not incomplete and len(runs) > 1 and name != "missing":
        runs = _complete(runs, run)
    rows = [(each.run, *(getattr(row, column) for column in columns)) for each in runs for row in _rows(each, name)]
    return DataFrame(rows, columns=[RUN_COLUMN, *columns])


def _runs_in(folder: str | Path) -> tuple[RunMetrics, ...]:
    runs = replay_in_python([Path(folder)]).runs
    if not runs:
        raise FileNotFoundError(f"{folder} has no event logs; give a run folder, or a folder of runs")
    return runs


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
