"""`understudy replay` and `understudy compare` read a lake, and show what the logs show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.incomplete import EVIDENCE, let_be_incomplete
from understudy.cli.main import main


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    runs = {"run-1": killed_controller("run-1"), "run-2": RandomRun(2, records=200).logs}
    for name, written in runs.items():
        folder = tmp_path / "logs" / name
        folder.mkdir(parents=True)
        for file, lines in written.lines.items():
            (folder / file).write_bytes(b"".join(lines))
    with (tmp_path / "logs" / "run-1" / "broker-2-0001-0001.jsonl").open("ab") as log:
        log.write(b'{"torn":')
    return tmp_path / "logs"


@pytest.fixture
def lake(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["ingest", str(logs), "--lake", str(tmp_path / "lake")]) == 0
    capsys.readouterr()
    return tmp_path / "lake"


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_a_lake_and_its_logs_give_the_same_tables(logs: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from_logs = json.loads(shown(capsys, "replay", logs, "--engine", "python", "--json"))
    from_lake = json.loads(shown(capsys, "replay", lake, "--json"))
    assert from_lake == from_logs
    assert len(from_lake["findings"]) == 1


def test_a_page_names_the_lake(logs: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from_logs = shown(capsys, "replay", logs, "--engine", "python")
    from_lake = shown(capsys, "replay", lake)
    computed = [line for line in from_lake.splitlines() if "computed by" in line]
    assert computed[0].startswith("  computed by version 2 of the lake ")
    others = [[line for line in page.splitlines() if "computed by" not in line] for page in (from_lake, from_logs)]
    assert others[0] == others[1]


def test_one_run_is_shown_of_a_lake_or_of_logs(logs: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for where in (lake, logs):
        page = shown(capsys, "replay", where, "--run", "run-1", *(() if where is lake else ("--engine", "python")))
        assert page.startswith("Run run-1: 8.100 s")
    assert main(["replay", str(lake), "--run", "run-9"]) == 2
    assert "--run run-9: there is no such run" in capsys.readouterr().err


def test_what_does_not_go_with_a_lake_is_refused(logs: Path, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(lake), str(logs)]) == 2
    assert "a lake is replayed alone" in capsys.readouterr().err
    assert main(["replay", str(lake), "--dir", "tables"]) == 2
    assert "leave --dir out" in capsys.readouterr().err
    assert main(["compare", str(lake), str(logs), "--by", "brokers"]) == 2
    assert "a lake is compared alone" in capsys.readouterr().err


def test_a_lake_of_a_later_format_is_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    created = lake / "runs" / "_delta_log" / "00000000000000000000.json"
    created.write_text(created.read_text().replace('"understudy.format":"2"', '"understudy.format":"99"'))
    compare = ["compare", str(lake), "--by", "brokers"]
    for command in (["replay", str(lake)], compare, [*compare, "--spark", "local[1]"]):
        assert main(command) == 1
        assert "99" in capsys.readouterr().err


def test_runs_of_a_lake_are_compared_and_opened(lake: Path, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = shown(capsys, "compare", lake, "--by", "brokers")
    from_logs = shown(capsys, "compare", logs, "--by", "brokers")
    commands, figures = _commands_and_figures(page)
    assert figures == _commands_and_figures(from_logs)[1]
    assert commands
    for command in map(str.split, commands):
        assert shown(capsys, *command[1:]).startswith(f"Run {command[-1]}: ")


def _commands_and_figures(page: str) -> tuple[list[str], list[str]]:
    """Return the commands of a page that open a run, which differ between a lake and logs, and its other lines before
    the worst runs."""
    is_command = re.compile(r"\s*understudy replay ").match
    commands = [line for line in page.splitlines() if is_command(line)]
    return commands, [line for line in page.split("Worst runs")[0].splitlines() if not is_command(line)]


def test_a_lake_with_missing_records_is_compared_without_them_and_replayed_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_be_incomplete(monkeypatch, "run-2")
    monkeypatch.chdir(tmp_path)
    for run in ("run-1", "run-2"):
        write(killed_controller(run), tmp_path / "logs" / run)
    printed = shown(capsys, "ingest", "logs", "--lake", "lake")
    assert f"\nrun run-2 has missing records: {EVIDENCE}\n" in printed
    assert shown(capsys, "compare", "lake", "--by", "brokers").splitlines()[:4] == [
        "1 run, 1 failover, 1 group by brokers",
        "  1 run left out, because records are missing; --incomplete also uses runs with missing records",
        f"    run-2: {EVIDENCE}",
        "      understudy replay lake --run run-2",
    ]
    used = shown(capsys, "compare", "lake", "--by", "brokers", "--incomplete")
    assert used.startswith("2 runs, ")
    page = json.loads(shown(capsys, "replay", "lake", "--json"))
    assert {run["run"]: len(run["missing"]) for run in page["runs"]} == {"run-1": 0, "run-2": 1}


def test_a_lake_whose_runs_all_have_missing_records_is_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_be_incomplete(monkeypatch, "run-1")
    write(killed_controller("run-1"), tmp_path / "logs")
    lake = tmp_path / "lake"
    shown(capsys, "ingest", tmp_path / "logs", "--lake", lake)
    assert main(["compare", str(lake), "--by", "brokers"]) == 2
    assert f"none of the runs is complete, for example run-1: {EVIDENCE}; `understudy replay {lake} --run run-1`" in (
        capsys.readouterr().err
    )
