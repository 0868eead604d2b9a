"""The ledger of hunts: lines are added, read back and added up; the page in `docs` is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.trials.hunt.ledger import BadLedger, HuntLine, add_line, ledger_page, read_ledger

ONE = HuntLine("2026-01-31", "0123456789ab", 1, 1_000, 60, 412_345, 6_789, 0, "nothing")
OTHER = HuntLine("2026-02-01", "", 5_001, 5_100, 30, 20_001, 300, 2, "C4a at seed 5002; R6 at seed 5009")
DOCS = Path(__file__).parents[4] / "docs" / "inside" / "seed-ledger.md"


def test_lines_are_added_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "ledger.md"
    assert read_ledger(file) == []
    add_line(file, ONE)
    add_line(file, OTHER)
    assert read_ledger(file) == [ONE, OTHER]
    page = file.read_text()
    assert "| 2026-01-31 | 0123456789ab | 1..1000 | 60 | 412,345 | 6,789 | 0 | nothing |" in page
    assert "In all: 1,100 seeds, 17.5 simulated hours, 432,346 records acknowledged, 7,089 elections, 2 failed" in page
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Notes\n", "it has no line '| date | commit |"),
        (ledger_page([ONE]).replace("1..1000", "1-1000"), ":14: '| 2026-01-31 |"),
        (ledger_page([ONE]).replace("6,789", "many"), "is no line of a hunt; expected date, commit"),
        (ledger_page([ONE]) + "the end\n", "'the end' is no line of a hunt"),
    ],
    ids=["another page", "bad seeds", "bad number", "text behind"],
)
def test_another_file_is_refused_and_stays_as_it_is(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    with pytest.raises(BadLedger) as bad:
        add_line(file, ONE)
    assert message in str(bad.value)
    assert file.read_text() == text


def test_the_page_in_docs_is_as_the_command_writes_it() -> None:
    hunts = read_ledger(DOCS)
    assert hunts
    assert DOCS.read_text() == ledger_page(hunts)
