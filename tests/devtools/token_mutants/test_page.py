"""Results are kept line by line, and the page says what became of every mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.pages.source import ROOT
from devtools.token_mutants.page import NO_REASON, PAGE, page, without_reason
from devtools.token_mutants.results import (
    Result,
    add_result,
    current,
    keep_results,
    read_reasons,
    read_results,
)
from devtools.token_mutants.sites import Mutant
from devtools.token_mutants.workshop import Verdict

MUTANT = Mutant(file="controller/a.py", function="f", before="a | b", after="a & b", nth=1, line=7, change="| → &")
SURVIVED = Result(MUTANT, Verdict("survived"))


def test_a_later_result_replaces_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for verdict in (Verdict("survived"), Verdict("tests", "tests/test_a.py::test_f")):
        add_result(Result(MUTANT, verdict), path)
    found = read_results(path)
    assert list(found.values()) == [Result(MUTANT, Verdict("tests", "tests/test_a.py::test_f"))]
    keep_results(found.values(), path)
    assert read_results(path) == found
    assert len(path.read_text().splitlines()) == 1


def test_results_of_code_that_has_changed_are_left_out() -> None:
    of_today = [each for each in read_results().values() if each.mutant.file == "controller/leader_election.py"]
    assert {each.mutant.key for each in current([SURVIVED, *of_today], ROOT)} <= {each.mutant.key for each in of_today}


def test_a_survivor_without_a_reason_is_on_the_page_and_is_returned() -> None:
    text = page([SURVIVED], {})
    assert "| both | 1 | 0 | 0 | 1 |" in text
    assert f"| controller/a.py:7 | `\\| → &` | `a & b` | {NO_REASON} |" in text
    assert without_reason([SURVIVED], {}) == [SURVIVED]


def test_a_reason_belongs_to_the_change_wherever_its_line_is() -> None:
    reasons = {MUTANT.key: "They are equal."}
    assert "| They are equal. |" in page([SURVIVED], reasons)
    assert without_reason([SURVIVED], reasons) == []


def test_a_reason_with_a_misspelt_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reasons.yaml"
    path.write_text("- {file: a, function: f, before: b, after: c, reson: They are equal.}\n")
    with pytest.raises(ValueError, match="reson"):
        read_reasons(path)


def test_the_committed_page_is_that_of_the_committed_results() -> None:
    results, reasons = read_results(), read_reasons()
    assert PAGE.read_text() == page(results.values(), reasons)
    assert without_reason(results.values(), reasons) == []


def test_every_reason_is_that_of_a_survivor() -> None:
    survived = {each.mutant.key for each in read_results().values() if each.has_survived}
    assert set(read_reasons()) - survived == set()
