"""Generates docs/reference/tables.md: every table of a run with its columns, from the structs that define them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from devtools.pages.event_log import section
from devtools.pages.source import classes, docstring, parse
from devtools.pages.text import paragraph
from understudy.history.lake.comments import attribute_docstrings
from understudy.history.metrics.doubt import COUNTS
from understudy.history.metrics.metric_tables import SORTED_BY, TABLES, RunMetrics, Table
from understudy.history.metrics.row_tables import ROW_TABLES

NAME = "reference/tables.md"

_SOURCE = "understudy/history/metrics/metric_tables.py"
_ROWS_SOURCE = "understudy/history/metrics/row_tables.py"

HEAD = """\
# The tables of a run

`understudy replay` computes these tables from the event logs of each run. The page shows a part of them; `--json`
prints all of them, and `--dir` and a lake hold them as Parquet, with the id of the run as the first column, and with
each time in `_at_ms` also as a timestamp in UTC, at the end: `lost_at`.
`python -m devtools.pages` writes this page from the structs in `understudy/history/metrics/metric_tables.py`; a test
compares the two.

A column whose name ends in `_ms` is in milliseconds, to the microsecond; `_at_ms` is after the first record of the run.
A number that the log does not state is null, not zero. Nothing is estimated but the moment when a broker or controller
was lost without a fault on record: see *silence*. Records are named as in [event-log.md](event-log.md).

"""

DOUBT = """\
## Missing records

The table `missing` has the stretches in which records of the run are missing. The column `doubt` of each row names the
columns of the row that could have other values if no record were missing; it is empty in a complete run on one clock. A
page has a sign at such a figure:

"""

SIGNS = (
    ("sign on a page", "columns in doubt", "the right value may be"),
    ("`≥ 12`", "", "this or larger: missing records can only add to it"),
    (
        "`≤ 24.3 s`",
        "`totals.without_controller_ms`, if the run's first reign (epoch 1) was ready, and no reign has `ready_at_ms` "
        "or `ended_at_ms` in doubt",
        "this or smaller, up to the end that is on record",
    ),
    ("`12.2 ms ?`", "every other column", "larger, smaller or another"),
)

DEPENDS = """\

A column is in doubt if a missing record could be evidence of it:

"""

EVIDENCE = (
    ("columns", "records that they depend on"),
    (
        "`previous_epoch`, `previous_broker`, `controllers`",
        "elections: the run has no election of an epoch, and the log of a broker is missing at that time",
    ),
    (
        "how a reign ended, and the columns of a failover that repeat it",
        "its fault: records of the testbed and of its own node, from the fault to the next election. Without a fault: "
        "records of the testbed and of all brokers between the two elections",
    ),
    ("`noticed_by`, `detection_ms`, `election_ms`", "also records of all brokers from the loss to the election"),
    (
        "the takeover and its parts, `propagation_ms`, `requests`, `unanswered`",
        "records of the new controller's process from its election on",
    ),
    (
        "states of partitions, and counts of their changes",
        "records of controllers: a broker's log from its election on, and the log of any broker if an election may be "
        "missing",
    ),
    ("times without a leader", "also records of the testbed and of the leader's node"),
    ("requests, refusals, events, fences", "the logs of the nodes that write them"),
    (
        "times after the run's first record",
        "the first record: the beginning of any log, unless the testbed's first record is there",
    ),
)

CLOCKS = """
A row that is missing altogether has no mark; then the counts of `totals` are in doubt. Columns that identify a row, and
columns that repeat one record, are never in doubt.

## Clocks

Times between records of several machines have a column that ends in `_within_ms`: the time is wrong by at most this,
because the clocks of the machines are aligned only to a certain extent (the table `clocks`). It is 0 if both records
are on one clock, and null if the time is. Times within one process, such as the takeover, have no such column. A page
shows `6.01 s ± 1.4 ms`, in a column of milliseconds `6,012.3 ± 1.4 ms` with no more digits than that justifies, and
`< 2.8 ms` for a time that is smaller than its uncertainty.

The order of two records on different clocks decides what ended a reign, which node noticed it and when a broker was
down. If both are so close that the clocks leave it open, the columns that follow from it are also in `doubt`, in
`totals`, `reigns`, `failovers` and `partitions`. The row tables have the uncertainty of times, and not this mark.

"""

ROWS = """\
## Row by row

These tables have a row for each request, leadership, controller event and fault. They are written by `--dir` and
into a lake, and are on no page (`understudy/history/metrics/row_tables.py`)."""


def page() -> str:
    lines = [HEAD + _doubt() + _definitions(), ""]
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


def _doubt() -> str:
    """What the marks and uncertainties of columns mean."""
    head, counts, *others = SIGNS
    return DOUBT + _table((head, (counts[0], _counts(), counts[2]), *others)) + DEPENDS + _table(EVIDENCE) + CLOCKS


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join([lines[0], f"|{'---|' * len(rows[0])}\n", *lines[1:]])


def _counts() -> str:
    """The columns that missing records can only make larger, by table."""
    return "; ".join(
        f"of `{table}` {', '.join(f'`{name}`' for name in TABLES[table].__struct_fields__ if name in columns)}"
        for table, columns in COUNTS.items()
    )


def _definitions() -> str:
    """The words that the definitions use, from the docstring of the module."""
    _, _, words = docstring(parse(_SOURCE)).partition("Words used below. ")
    return "## Words\n\n" + paragraph(words)
