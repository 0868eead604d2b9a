"""Generates docs/reference/tables.md: every table of a run with its columns, from the structs that define them."""

from __future__ import annotations

import msgspec

from devtools.pages.event_log import section
from devtools.pages.source import attribute_docstrings, classes, docstring, parse
from devtools.pages.text import paragraph
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics, Table
from understudy.history.metrics.row_tables import ROW_TABLES

NAME = "reference/tables.md"

_SOURCE = "understudy/history/metrics/metric_tables.py"
_ROWS_SOURCE = "understudy/history/metrics/row_tables.py"

HEAD = """\
# The tables of a run

`understudy replay` computes these tables from the event logs of each run. The page shows a part of them; `--json`
prints all of them, and `--dir` and a lake hold them as Parquet, with the id of the run as the first column.
`python -m devtools.pages` writes this page from the structs in `understudy/history/metrics/metric_tables.py`; a test
compares the two.

A column whose name ends in `_ms` is in milliseconds, to the microsecond; `_at_ms` is after the first record of the run.
A number that the log does not state is null, not zero. Nothing is estimated but the moment when a broker or controller
was lost without a fault on record: see *silence*. Records are named as in [event-log.md](event-log.md).

"""

ROWS = """\
## Row by row

These tables have a row for each request, leadership, controller event and fault. They are written by `--dir` and
into a lake, and are on no page (`understudy/history/metrics/row_tables.py`)."""


def page() -> str:
    lines = [HEAD + _definitions(), ""]
    for name, table in TABLES.items():
        lines += section(name, table)
        if name in SORTED_BY:
            columns = ", ".join(f"`{column}`" for column in SORTED_BY[name])
            lines += [f"A row is identified, within its run, by {columns}.", ""]
    lines += [ROWS, ""]
    for name, table in ROW_TABLES.items():
        lines += section(name, table)
    return "\n".join(lines)


def without_description() -> list[str]:
    """The tables and columns that their source does not describe."""
    found = {**classes(parse(_SOURCE)), **classes(parse(_ROWS_SOURCE))}
    of_all = attribute_docstrings(found[Table.__name__])
    return [
        f"{table.__name__}.{field.name}"
        for table in (*TABLES.values(), *ROW_TABLES.values())
        for field in msgspec.structs.fields(table)
        if field.name not in of_all | attribute_docstrings(found[table.__name__])
    ] + [name for name in TABLES if name not in RunMetrics.__struct_fields__]


def _definitions() -> str:
    """The words that the definitions use, from the docstring of the module."""
    _, _, words = docstring(parse(_SOURCE)).partition("Words used below. ")
    return "## Words\n\n" + paragraph(words)
