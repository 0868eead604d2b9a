"""`understudy mutants`: what it prints, and the table that it writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.pages.source import ROOT
from understudy.cli.main import main
from understudy.cli.mutants import BEGIN, END, row, with_rows
from understudy.foundation.eventlog.fences import SWITCHES
from understudy.foundation.eventlog.rules import Fix
from understudy.history.writing import ordinal
from understudy.trials.hunt.mutants import SearchResult, check_of

PAGE = ROOT / "docs" / "inside" / "reliability.md"


def test_a_seed_that_notices_is_named_with_its_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{BEGIN}\n{END}\n")
    arguments = ["--switch", "kafka-7415", "--seeds", "1", "--seconds", "10", "--write", str(page)]
    assert main(["mutants", *arguments]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"kafka-7415 +\d+ hits  found by seed 0, the 1st: .*R7.*", printed[0])
    assert printed[1] == "1 of 1 were noticed within 1 seeds of 10 s"
    assert "| seed 0, number 1 |" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--switch", "kafka-7416"], "did you mean 'kafka-7415'"),
        (["--write", "README.md"], "the page has no lines"),
        (["--experiments-only"], "--experiments-only needs --write PAGE"),
    ],
)
def test_what_cannot_be_searched_for_or_written_is_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mutants", *arguments]) == 2
    assert why in capsys.readouterr().err


def test_rows_of_other_switches_stay_and_all_are_in_the_order_of_the_switches() -> None:
    page = with_rows(f"{BEGIN}\n{END}\n", {"kip-497": row(SearchResult(Fix.KIP_497, 5, 3))})
    found = SearchResult(Fix.KAFKA_1382, 7, 17, 6, ("settles", "H7"))
    page = with_rows(page, {"kafka-1382": row(found)})
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in rows] == ["kafka-1382", "kip-497"]
    assert "seed 6, number 7 | settles, H7 |" in rows[0]
    assert "not by 5 seeds" in rows[1]


def test_the_experiments_of_the_table_are_updated_without_a_search(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    row_of_before = "| `kip-380` | 7 | not by 3 seeds |  |"
    page.write_text(f"{BEGIN}\n{row_of_before} old |\n{END}\n")
    assert main(["mutants", "--experiments-only", "--write", str(page)]) == 0
    (updated,) = (line for line in page.read_text().splitlines() if line.startswith("| `"))
    assert updated.startswith(f"{row_of_before} [blink](")
    assert "old" not in updated


def test_a_seed_that_fails_with_the_switch_on_shows_nothing() -> None:
    result = SearchResult(Fix.KIP_497, 2, 3, 1, ("R5",), holds_when_on=False)
    assert not result.is_found
    assert "nothing is shown" in str(result)
    assert "R5" not in row(result)


@pytest.mark.parametrize(
    ("problem", "check"),
    [
        ("R3a violated at broker-1/8#268: ledger-0", "R3a"),
        ("P10 violated at zxid 3", "P10"),
        ("Unsettled: seed 1, not settled", "settles"),
        ("broker-2 ended at 3 ms with OSError()", "no failure"),
    ],
)
def test_a_problem_names_its_check(problem: str, check: str) -> None:
    assert check_of(problem) == check


def test_ordinals() -> None:
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 21, 111)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "111th")
    ]


def test_the_page_names_the_experiments_of_today() -> None:
    page = PAGE.read_text()
    assert with_rows(page, {}) == page, "run `understudy mutants --experiments-only --write docs/inside/reliability.md`"
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert set(rows) <= set(SWITCHES)
