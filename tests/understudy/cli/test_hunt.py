"""`understudy hunt`: seeds are run until a limit, failed ones are shrunk and written down, and their plans replay."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.shares import at_night
from understudy.cli import hunt as hunting
from understudy.cli.main import main
from understudy.page.export import page_of
from understudy.trials.hunt.ledger import read_ledger

WITHOUT = ["--without", "zk.controller-epoch"]


def hunt(folder: Path, *arguments: str) -> int:
    return main(["hunt", "--seconds", "9", "--dir", str(folder / "failed"), *arguments])


def test_a_hunt_that_finds_nothing_ends_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt(tmp_path, "--seeds", "2", "--from", "7") == 0
    output = capsys.readouterr().out
    assert output.startswith("2 seeds from 7, of 9 simulated seconds: ")
    assert output.rstrip().endswith("; the next seed is 9")
    assert list((tmp_path / "failed").iterdir()) == []


def test_a_failed_seed_is_shrunk_and_its_plan_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt(tmp_path, "--seeds", "50", "--failures", "1", *WITHOUT) == 1
    output = capsys.readouterr()
    assert "failed: C3; left of" in output.out
    (folder,) = (tmp_path / "failed").iterdir()
    assert f"the report: {folder / 'report.txt'}" in output.out
    link = f"{(folder / 'page.html').as_uri()}#at=broker-"
    assert f"see it: {link}" in output.out
    assert link in (folder / "report.txt").read_text()
    assert f"seeds failed; their reports are in {tmp_path / 'failed'}" in output.err
    assert main(["simulate", "--plan", str(folder / "plan.json"), "--dir", str(tmp_path / "again")]) == 1
    replayed = capsys.readouterr().out
    assert "C3 violated at" in replayed
    assert f"replay it: understudy simulate --plan {folder / 'plan.json'}" in replayed
    assert f"see it: {(tmp_path / 'again' / 'page.html').as_uri()}#at=broker-" in replayed
    assert "the plan was saved because it violates C3, and it does" in replayed
    for file in (folder / "events").rglob("*.jsonl"):
        assert (tmp_path / "again" / file.relative_to(folder / "events")).read_bytes() == file.read_bytes()


def test_a_plan_that_is_violated_no_more_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt(tmp_path, "--seeds", "50", "--failures", "1", "--shrink-runs", "20", *WITHOUT) == 1
    (plan,) = (tmp_path / "failed").glob("*/plan.json")
    plan.write_text(plan.read_text().replace('"zk.controller-epoch"', ""))
    assert main(["simulate", "--plan", str(plan)]) == 0
    assert "it violated C3, and it does not" in capsys.readouterr().out


def test_a_page_that_cannot_be_written_leaves_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.cli.page_file.page_of", partial(page_of, most_bytes=10))
    assert hunt(tmp_path, "--seeds", "50", "--failures", "1", "--shrink-runs", "1", *WITHOUT) == 1
    output = capsys.readouterr()
    assert "page.html is not written: " in output.err
    (report,) = (tmp_path / "failed").glob("*/report.txt")
    assert f"see it: understudy watch {report.parent / 'events'}" in output.out


def test_the_ledger_gets_a_line(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.md"
    for first in ("7", "9"):
        assert hunt(tmp_path, "--seeds", "2", "--from", first, "--workers", "2", "--ledger", str(ledger)) == 0
    lines = read_ledger(ledger)
    assert [(line.first, line.last, line.seconds, line.failed, line.found) for line in lines] == [
        (7, 8, 9, 0, "nothing"),
        (9, 10, 9, 0, "nothing"),
    ]
    assert all(line.acknowledged > 0 and line.elections > 0 for line in lines)


def test_a_hunt_ends_after_its_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minutes = iter(range(100))
    monkeypatch.setattr("understudy.cli.hunt.time.monotonic", lambda: 30.0 * next(minutes))
    ledger = tmp_path / "ledger.md"
    assert hunt(tmp_path, "--minutes", "2", "--ledger", str(ledger)) == 0
    assert 1 <= read_ledger(ledger)[0].seeds < 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_hunt_says_what_it_has_run(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the shell has started it in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    added = hunting._HuntTotals.add

    def interrupted(totals: hunting._HuntTotals, outcome: object) -> None:
        added(totals, outcome)  # type: ignore[arg-type]  # the outcome comes from the hunt itself
        os.kill(os.getpid(), number)

    monkeypatch.setattr(hunting._HuntTotals, "add", interrupted)
    try:
        assert hunt(tmp_path, "--seeds", "5") == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert "1 seeds from 1," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --seeds N, --minutes M, or both"),
        (["--seeds", "1", "--ledger", "x.md", *WITHOUT], "--ledger goes without --without"),
        (["--seeds", "1", "--spark", "local[2]", "--workers", "2"], "--workers goes without --spark"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["hunt", *arguments])
    assert message in capsys.readouterr().err


def test_what_cannot_be_used_is_refused_before_the_hunt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n")
    assert hunt(tmp_path, "--seeds", "1", "--ledger", str(tmp_path / "notes.md")) == 2
    assert hunt(tmp_path, "--seeds", "1", "--ledger", str(tmp_path / "gone" / "ledger.md")) == 2
    assert hunt(tmp_path, "--seeds", "1", "--without", "moat") == 2
    errors = capsys.readouterr().err
    assert "notes.md: it has no line" in errors
    assert "there is no folder" in errors
    assert "--without moat: 'moat' is no fence" in errors
    (tmp_path / "failed").write_text("")
    assert hunt(tmp_path, "--seeds", "1") == 1
    assert "File exists" in capsys.readouterr().err


def test_a_plan_has_its_own_length_and_fences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--plan", "plan.json", "--seconds", "3"])
    assert "--seconds, --without and --clocks are part of the plan" in capsys.readouterr().err
    assert main(["simulate", "--plan", str(tmp_path / "gone.json")]) == 2
    assert "No such file" in capsys.readouterr().err


@at_night("hunts in Spark have tests of their own")
def test_a_hunt_in_spark_finds_and_shrinks_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hunt(tmp_path, "--seeds", "20", "--failures", "1", "--spark", "local[2]", *WITHOUT) == 1
    assert "failed: C3; left of" in capsys.readouterr().out
    assert len(list((tmp_path / "failed").glob("*/plan.json"))) == 1
