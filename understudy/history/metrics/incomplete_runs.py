"""Says why runs are not complete, and reads the rows of software that did not look for missing records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from understudy.history.metrics.metric_tables import Missing


class IncompleteRunsLeftOut(UserWarning):
    """Some runs are left out of a table, because records of them are missing."""


def first_evidence(missing: Sequence[Missing]) -> str:
    """Return the first evidence that records of a run are missing, with the record that has it; empty without any."""
    if not missing:
        return ""
    first = missing[0]
    incarnation = "" if first.incarnation is None else f"/{first.incarnation}"
    return f"{first.node or 'a controller'}{incarnation} lacks records: {first.evidence} ({first.witness})"


_IN_OLDER_ROWS: Final[Mapping[str, object]] = {"doubt": (), "is_complete": False, "leaderless_within_ms": 0.0}


def older_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table, with values in the columns that rows of older software lack.

    Its run is not complete then, so that only somebody who asks for incomplete runs uses the row.
    """
    return {name: _IN_OLDER_ROWS.get(name) if value is None else value for name, value in row.items()}
