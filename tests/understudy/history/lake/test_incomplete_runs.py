"""A lake keeps runs with missing records, says which ones they are, and leaves them out unless they are asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.incomplete import EVIDENCE, let_be_incomplete
from tests.understudy.history.lake.lakes import take
from understudy.history.lake.lake import AllIncomplete, Lake
from understudy.history.metrics.incomplete_runs import IncompleteRunsLeftOut


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
