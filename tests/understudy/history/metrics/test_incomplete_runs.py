"""The reason why a run is not complete is one line, and rows of older software make no run complete."""

from __future__ import annotations

import pytest

from understudy.history.metrics.incomplete_runs import first_evidence, older_row
from understudy.history.metrics.metric_tables import Missing


def missing(node: str, incarnation: int | None) -> Missing:
    return Missing(
        node=node,
        incarnation=incarnation,
        from_ms=0.0,
        until_ms=9.0,
        kind="no end",
        evidence="broker-1 received its UpdateMetadata #3",
        witness="broker-1/1#58",
    )


@pytest.mark.parametrize(
    ("row", "who"),
    [
        (missing("broker-3", 2), "broker-3/2"),
        (missing("broker-3", None), "broker-3"),
        (missing("", None), "a controller"),
    ],
)
def test_the_first_evidence_names_the_node_and_the_record(row: Missing, who: str) -> None:
    expected = f"{who} lacks records: broker-1 received its UpdateMetadata #3 (broker-1/1#58)"
    assert first_evidence([row, missing("broker-9", 1)]) == expected


def test_a_complete_run_has_no_evidence() -> None:
    assert first_evidence([]) == ""


def test_an_older_row_is_not_of_a_complete_run_and_keeps_its_other_nulls() -> None:
    older = {"run": "run-1", "records": 3, "doubt": None, "is_complete": None, "outage_ms": None}
    assert older_row(older) == {"run": "run-1", "records": 3, "doubt": (), "is_complete": False, "outage_ms": None}
    newer = {"doubt": ("outage_ms",), "is_complete": True, "leaderless_within_ms": 2.5}
    assert older_row(newer) == newer
