"""`understudy collect`: the table of what was copied, the verdict, and the exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from understudy.cli import collect as verb
from understudy.cli.main import main
from understudy.history.collecting.sources import LocalSource
from understudy.history.collecting.ssh import SshSource
from understudy.history.reading.clocks import ClockPoint, MachineClock, RunClocks
from understudy.history.reading.findings import TORN_LINE, LogFinding
from understudy.history.reading.missing import NO_LOG, MissingRecords


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two log directories with the event logs of a run, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, lines in killed_controller().lines.items():
        events = Path("one" if name.startswith("broker-1") else "two", "events")
        events.mkdir(parents=True, exist_ok=True)
        (events / name).write_bytes(b"".join(lines))
    return ["one", "two"]


def collected(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = main(["collect", *arguments])
    output = capsys.readouterr()
    return code, (output.out + output.err).splitlines()


def test_nodes_are_listed_with_what_was_copied_and_kept(hosts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = collected(capsys, *hosts, "-o", "runs/mine")
    assert code == 0
    assert lines[0] == "run run-1 in runs/mine"
    assert lines[2].split() == ["node", "incarnations", "files", "bytes", "copied", "kept"]
    table = {row[0]: row[1:] for row in map(str.split, lines[3 : lines.index("", 3)])}
    sizes = {name: sum(map(len, lines)) for name, lines in killed_controller().lines.items()}
    size = f"{sum(size for name, size in sizes.items() if name.startswith('broker-1')):,}"
    assert table["broker-1"] == ["1-2", "2", size, size, "0"]
    assert table["all"] == [str(len(sizes)), f"{sum(sizes.values()):,}", f"{sum(sizes.values()):,}", "0"]
    assert lines[-3:] == [
        "one clock: times of all nodes can be compared",
        "complete: no record shows that others are missing",
        "next: understudy replay runs/mine",
    ]
    code, lines = collected(capsys, "one", "-o", "runs/mine")
    assert code == 0
    table = {row[0]: row[1:] for row in map(str.split, lines[3 : lines.index("", 3)])}
    assert table["all"] == [str(len(sizes)), f"{sum(sizes.values()):,}", "0", f"{sum(sizes.values()):,}"]


def test_a_dry_run_copies_nothing(hosts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = collected(capsys, *hosts, "-o", "runs/mine", "--dry-run")
    assert code == 0
    assert "to copy" in lines[2]
    assert not Path("runs").exists()


def test_missing_records_are_listed_and_have_their_exit_code(
    hosts: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = MissingRecords(0, 9_000_000, "broker-4", 0, NO_LOG, "broker-1 sent it a request", "broker-1/1#7")
    monkeypatch.setattr(verb, "find_missing", lambda run: (missing,))
    code, lines = collected(capsys, *hosts, "-o", "runs/mine")
    assert code == 3
    assert lines[-2:] == [str(missing), "next: understudy replay runs/mine"]


def test_clocks_are_listed_with_their_uncertainty_and_damage_in_short() -> None:
    clocks = RunClocks(
        [
            MachineClock("host-1", "b1", (ClockPoint(0, 0, 0),), "reference"),
            MachineClock("host-2", "b2", (ClockPoint(0, 5, 400), ClockPoint(9, 5, 1_250)), "messages"),
            MachineClock("", "", (ClockPoint(0, 5, 1_000_000),), "wall clock"),
        ]
    )
    findings = [LogFinding("log", line, TORN_LINE, "") for line in range(1, 8)]
    assert list(verb.describe_verdict((), clocks, findings)) == [
        *(f"torn line (log:{line})" for line in range(1, 6)),
        "and 2 more findings",
        "3 clocks; times of one are exact, others are within:",
        "  host-1, boot b1: the reference",
        "  host-2, boot b2: ± 0.400 to 1.250 ms, by messages",
        "  machine not known, boot not known: ± 1,000.000 ms, by wall clock",
        "complete: no record shows that others are missing",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "no event-log files: no such file or folder (missing)"),
        (["one", "--run", "run-9"], "--run run-9: the sources have no such run; they have 'run-1' (2 files)"),
        (["s3://bucket/runs"], "s3://bucket/runs: event logs are not collected from s3: URLs; give a local path"),
        (["one", "-o", "file"], "-o file is no folder; give the folder of a run, which may be new"),
        (["one", "-o", "other"], "other has run 'run-2', such as other/broker-1-0001-0001.jsonl; give run 'run-1'"),
    ],
)
def test_bad_input_is_refused(
    arguments: list[str], message: str, hosts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    Path("other").mkdir()
    Path("other/broker-1-0001-0001.jsonl").write_bytes(
        b"".join(killed_controller("run-2").lines["broker-1-0001-0001.jsonl"])
    )
    folder = [] if "-o" in arguments else ["-o", "runs/mine"]
    code, (line, *_) = collected(capsys, *arguments, *folder)
    assert code == 2
    assert line.startswith(f"understudy collect: {message}")


def test_a_failed_copy_names_what_failed_and_that_the_same_command_continues(
    hosts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("runs/mine/broker-1").mkdir(parents=True)
    Path("runs/mine/broker-1/events").touch()
    code, (line, *_) = collected(capsys, *hosts, "-o", "runs/mine")
    assert code == 1
    expected = "understudy collect: -o runs/mine: runs/mine/broker-1/events"
    assert line.startswith(expected)
    assert line.endswith("; the same command continues")


def test_sources_are_paths_or_paths_of_other_machines() -> None:
    assert isinstance(verb.source("runs/mine"), LocalSource)
    assert isinstance(verb.source("./host:x"), LocalSource)
    assert isinstance(verb.source("host:x"), SshSource)
