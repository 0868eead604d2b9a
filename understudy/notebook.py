"""Shows runs in a Jupyter notebook: their page, and their tables as DataFrames of pandas.

import understudy

understudy.show("runs/mine")
understudy.table("runs", "failovers")
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.extras import require
from understudy.history.metrics.metric_tables import TABLES, RunMetrics, Table
from understudy.history.report.replay import replay_in_python
from understudy.page.export import page_of

if TYPE_CHECKING:
    from pandas import DataFrame

RUN_COLUMN = "run"


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


def table(run: str | Path, name: str) -> DataFrame:
    """Return a table of one or many runs (docs/reference/tables.md), with the id of the run as the first column.

    Args:
        run: a run folder, a folder of runs, or a file of event logs.
        name: for example `failovers`.

    Raises:
        ValueError: there is no such table.
        FileNotFoundError: `run` has no event logs.
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
    rows = [(each.run, *(getattr(row, column) for column in columns)) for each in runs for row in _rows(each, name)]
    return DataFrame(rows, columns=[RUN_COLUMN, *columns])


def _rows(run: RunMetrics, name: str) -> tuple[Table, ...]:
    found: Table | tuple[Table, ...] = getattr(run, name)
    return found if isinstance(found, tuple) else (found,)
