"""`understudy crash-points`: the table, one run repeated, and what it says of a wrong command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.main import main
from understudy.history.reading.reader import read


def test_the_table_has_a_row_for_each_point(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crash-points", "--procedure", "topic-creation", "--how", "kill"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[-1] == "kill"
    assert [line.split()[0] for line in lines[2:6]] == [
        "partition.before_write",
        "partition.after_write",
        "partition.before_flush",
        "partition.after_flush",
    ]
    assert lines[-1].startswith(
        "4 runs with a fault at 4 points of 1 procedures: 4 ended as without the fault, 0 did not"
    )


def test_one_fault_at_one_point_is_repeated_and_leaves_its_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--procedure", "topic-creation", "--at", "partition.after_write/1", "--how", "zombie"]
    assert main(["crash-points", *where, "--dir", str(tmp_path / "run")]) == 0
    assert "zombie at partition.after_write/1: ok" in capsys.readouterr().out
    reading = read([tmp_path / "run"])
    assert reading.findings == ()
    assert any(record.type == "PointReached" for record in reading.records)


def test_a_failed_run_prints_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "understudy.trials.seeds.crash_points.differences", lambda calm, disturbed: ["another end state"]
    )
    assert main(["crash-points", "--procedure", "topic-creation", "--how", "kill"]) == 1
    output = capsys.readouterr()
    assert "another end state" in output.out
    assert "understudy crash-points --procedure topic-creation --at partition.before_write/1 --how kill" in output.out
    assert "1!" in output.out
    assert "4 of 4 runs failed" in output.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--procedure", "dancing"], "known are topic-creation"),
        (["--procedure", "topic-creation", "--how", "kill", "--at", "partition.before_write/9"], "does not reach that"),
    ],
)
def test_an_unknown_procedure_or_point_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["crash-points", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--at", "partition.before_write/1"], ["--dir", "somewhere"]])
def test_flags_that_need_each_other_are_refused_alone(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["crash-points", *arguments])
    assert "goes with --procedure" in capsys.readouterr().err
