"""A lake keeps runs with missing records, says which ones they are, and leaves them out unless they are asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.incomplete import EVIDENCE, let_be_incomplete
from tests.understudy.history.lake.lakes import content, take
from understudy.history.lake import ingest as ingesting
from understudy.history.lake import parts
from understudy.history.lake.lake import INCOMPLETE_UNKNOWN, NEEDED_AGAIN, AllIncomplete, Lake
from understudy.history.metrics.incomplete_runs import NOT_JUDGED, IncompleteRunsLeftOut


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for run in ("cut", "whole-1", "whole-2"):
        write(killed_controller(run), tmp_path / "runs" / run)
    return tmp_path / "runs"


@pytest.fixture
def lake(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake of three runs, of which one has missing records."""
    let_be_incomplete(monkeypatch, "cut")
    assert take(tmp_path / "lake", logs).incomplete == {"cut": EVIDENCE}
    return tmp_path / "lake"


def runs_in(lake: Lake, name: str, *, incomplete: bool = False) -> set[str]:
    return set(lake.read(name, incomplete=incomplete)["run"].to_pylist())


def test_a_table_is_read_without_runs_with_missing_records_and_says_how_many_are_left_out(lake: Path) -> None:
    opened = Lake(lake)
    for name in ("failovers", "totals", "RequestSent", "request_log"):
        with pytest.warns(IncompleteRunsLeftOut) as warned:
            assert runs_in(opened, name) == {"whole-1", "whole-2"}
        assert str(warned[0].message) == (
            f"1 of 3 runs of {lake} are left out of {name}, because records are missing, for example cut: "
            f"{EVIDENCE}; incomplete=True also reads them"
        )
        assert Path(warned[0].filename) == Path(__file__)
    with pytest.warns(IncompleteRunsLeftOut, match="left out of the metrics"):
        assert {run.run for run in opened.run_metrics()} == {"whole-1", "whole-2"}


def test_runs_with_missing_records_are_read_if_they_are_asked_for(lake: Path) -> None:
    opened = Lake(lake)
    for name in ("failovers", "totals", "RequestSent", "request_log"):
        assert runs_in(opened, name, incomplete=True) == {"cut", "whole-1", "whole-2"}
    assert {run.run for run in opened.run_metrics(incomplete=True)} == {"cut", "whole-1", "whole-2"}


def test_the_missing_stretches_are_a_table_and_totals_say_which_runs_are_complete(lake: Path) -> None:
    opened = Lake(lake)
    (row,) = opened.read("missing").to_pylist()
    assert (row["run"], row["node"], row["incarnation"], row["kind"]) == ("cut", "broker-4", None, "no log")
    assert f"broker-4 lacks records: {row['evidence']} ({row['witness']})" == EVIDENCE
    totals = opened.read("totals", incomplete=True).to_pylist()
    assert {row["run"]: row["is_complete"] for row in totals} == {"cut": False, "whole-1": True, "whole-2": True}
    assert opened.incomplete == {"cut": EVIDENCE}


def test_a_lake_whose_runs_all_have_missing_records_is_not_read_unless_they_are_asked_for(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_be_incomplete(monkeypatch, "cut", "whole-1", "whole-2")
    take(tmp_path / "lake", logs)
    opened = Lake(tmp_path / "lake")
    with pytest.raises(AllIncomplete, match=r"none of the 3 runs of .*lake is complete, for example cut: broker-4"):
        opened.read("failovers")
    assert opened.read("failovers", incomplete=True).num_rows == 3
    assert opened.read("missing").num_rows == 3
    assert opened.findings() == ()


def test_a_run_that_becomes_whole_is_complete(lake: Path, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_be_incomplete(monkeypatch)
    late = logs / "cut" / "broker-4-0001-0001.jsonl"
    late.write_bytes((logs / "cut" / "broker-3-0001-0001.jsonl").read_bytes().replace(b"broker-3", b"broker-4"))
    result = take(lake, logs)
    assert (result.replaced, result.incomplete) == (["cut"], {})
    assert Lake(lake).incomplete == {}
    assert runs_in(Lake(lake), "failovers") == {"cut", "whole-1", "whole-2"}
    assert Lake(lake).read("missing").num_rows == 0


def test_a_lake_of_complete_runs_is_read_without_a_word(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning would be an error in this test."""
    let_be_incomplete(monkeypatch)
    take(tmp_path / "lake", logs)
    assert runs_in(Lake(tmp_path / "lake"), "failovers") == {"cut", "whole-1", "whole-2"}
    assert Lake(tmp_path / "lake").findings() == ()


# ------------------------------------------------------------------ lakes of older software


COLUMNS_SINCE = {
    "totals": ["doubt", "is_complete", "without_controller_within_ms", "leaderless_within_ms"],
    "failovers": ["doubt", "detection_within_ms", "election_within_ms", "outage_within_ms"],
    "partitions": ["doubt", "leaderless_within_ms"],
    "settings": ["doubt"],
}
"""Columns that lakes of software without the search for missing records lack."""


@pytest.fixture
def older(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake as software without the search for missing records wrote it, and a run of today in it."""
    let_be_incomplete(monkeypatch)
    lake = tmp_path / "lake"
    with monkeypatch.context() as before:
        for module in (ingesting, parts):
            before.setattr(module, "schema_digest", lambda: "older")
        take(lake, logs / "whole-1", logs / "cut")
    opened = Lake(lake)
    for name in opened.tables:
        (path,) = opened.files("tables", name)
        table = pq.read_table(path)
        dropped = [column for column in COLUMNS_SINCE.get(name, ["doubt"]) if column in table.column_names]
        pq.write_table(table.drop_columns(dropped), path)
    for name in ("missing", "clocks"):
        for path in opened.files("tables", name):
            pq.write_table(pq.read_table(path).slice(0, 0), path)
    take(lake, logs / "whole-2")
    return lake


def test_a_run_of_an_older_lake_counts_as_one_with_missing_records(older: Path) -> None:
    opened = Lake(older)
    assert opened.incomplete == {"cut": NOT_JUDGED, "whole-1": NOT_JUDGED}
    with pytest.warns(IncompleteRunsLeftOut, match="2 of 3 runs .* for example cut: its tables are older than"):
        assert runs_in(opened, "failovers") == {"whole-2"}
    totals = opened.read("totals", incomplete=True).to_pylist()
    assert {row["run"]: row["is_complete"] for row in totals} == {"cut": None, "whole-1": None, "whole-2": True}
    assert [(found.kind, found.what) for found in opened.findings()] == 2 * [(INCOMPLETE_UNKNOWN, NEEDED_AGAIN)]


def test_the_metrics_of_an_older_lake_can_be_asked_for(older: Path) -> None:
    found = {run.run: run for run in Lake(older).run_metrics(incomplete=True)}
    assert set(found) == {"cut", "whole-1", "whole-2"}
    assert (found["cut"].totals.is_complete, found["cut"].totals.leaderless_within_ms) == (False, 0.0)
    assert found["cut"].failovers[0].doubt == ()
    assert found["cut"].failovers[0].outage_ms == found["whole-2"].failovers[0].outage_ms
    assert found["cut"].failovers[0].outage_within_ms is None


def test_the_runs_of_an_older_lake_are_judged_when_their_logs_are_ingested_again(older: Path, logs: Path) -> None:
    result = take(older, logs)
    assert (sorted(result.replaced), result.unchanged) == (["cut", "whole-1"], ["whole-2"])
    assert Lake(older).incomplete == {}
    assert all(row["is_complete"] for row in content(older)["totals"])
