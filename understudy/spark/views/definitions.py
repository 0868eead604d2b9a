"""Reads the views from the `.sql` files beside this module, and writes the text of one view with those that it reads.

A file has views, each a comment and `CREATE TEMPORARY VIEW name AS …;`. After FROM and JOIN stands the name of a view,
of a record type, or, in braces, of a table of the lake: `records` is `read_records`, others are as in `read_lake`. A
record type without braces is its table with the column `us`, as record_type.sql defines it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE

_FILES = ("times", "reigns", "requests", "events", "failovers", "partitions", "totals")

TABLES = (
    "settings",
    "totals",
    "reigns",
    "failovers",
    "partitions",
    "elections",
    "failed_elections",
    "requests",
    "refusals",
    "fence_hits",
    "events",
    "moments",
    "request_log",
    "leaderships",
    "event_log",
    "faults",
)
"""The views that are tables of a replay, in the order of docs/reference/tables.md."""

SMALL = ("incarnations", "reign_times", "run_ends", "down_times")
"""Views with few rows that many others read."""

RECORDS = "records"
"""What the records of all types are called in braces."""

_VIEW = re.compile(r"((?:^--[^\n]*\n)+)^CREATE TEMPORARY VIEW (\S+) AS\n(.+?);$", re.MULTILINE | re.DOTALL)
_READ = re.compile(r"\b(FROM|JOIN)\s+(\w+)")
_ANY_RECORD_TYPE = "<RecordType>"


class View(NamedTuple):
    """A view: a comment that says what its rows are, and the query."""

    comment: str
    query: str

    @property
    def reads(self) -> Iterator[str]:
        """The names of the views that it reads, as they come; a view may come again."""
        return (name for _, name in _READ.findall(self.query) if name in views())


@cache
def views() -> dict[str, View]:
    """Return all views by name."""
    found = {name: view for file in _FILES for name, view in _views_of(file).items()}
    (of_record_type,) = _views_of("record_type").values()
    return found | {
        name: View(*(text.replace(_ANY_RECORD_TYPE, name) for text in of_record_type)) for name in PAYLOAD_BY_TYPE
    }


def definition(name: str, given: Collection[str] = ()) -> str:
    """Return the SQL of a view, as one statement: the views that it reads, each after those that it reads itself.

    Args:
        given: views that are tables, as the lake has them; their names are in braces, and their queries left out.

    Raises:
        KeyError: there is no view of this name.
    """
    if name not in views():
        raise KeyError(f"there is no view {name!r}; the tables are {', '.join(TABLES)}")
    others = set(given) - {name}
    *read, wanted = [
        (views()[each].comment, each, _braced(views()[each].query, others)) for each in _in_order(name, others)
    ]
    parts = ",\n\n".join(f"{comment}{each} AS (\n{query}\n)" for comment, each, query in read)
    comment, _, query = wanted
    return f"WITH\n\n{parts}\n\n{comment}{query}\n" if parts else f"{comment}{query}\n"


def _in_order(name: str, others: Collection[str]) -> list[str]:
    """Return the views that a view reads, except `others`, each after those that it reads itself; then the view."""
    found: dict[str, None] = {}

    def add(wanted: str) -> None:
        for read in views()[wanted].reads:
            if read not in found and read not in others:
                add(read)
        found[wanted] = None

    add(name)
    return list(found)


def _braced(query: str, names: Collection[str]) -> str:
    return _READ.sub(lambda read: f"{read[1]} {{{read[2]}}}" if read[2] in names else read[0], query)


def _views_of(file: str) -> dict[str, View]:
    text = files(__package__).joinpath(f"{file}.sql").read_text(encoding="utf-8")
    return {name: View(comment, query) for comment, name, query in _VIEW.findall(text)}
