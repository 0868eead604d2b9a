"""`understudy lake` lists the versions of a lake, restores one, and deletes the files of old ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import assert_holds, content, files_below, take
from understudy.cli.main import main
from understudy.history.lake.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake of one run, to which another has been added."""
    take(tmp_path / "lake", write(killed_controller(), tmp_path / "runs" / "killed"))
    take(tmp_path / "lake", write(RandomRun(1, records=50).logs, tmp_path / "runs" / "random-1"))
    return tmp_path / "lake"


def act(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(["lake", *map(str, words)])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_the_changes_are_listed_and_one_is_restored(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = act(capsys, "history", lake)
    lines = output.splitlines()
    assert (code, [line.split("UTC  ")[1] for line in lines]) == (0, ["runs ingested: 1 added"] * 2)
    assert all(re.match(r" *\d+  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  ", line) for line in lines)
    assert act(capsys, "history", lake, "--limit", 1) == (0, lines[0] + "\n")
    first = int(lines[-1].split()[0])
    newest = content(lake)
    code, output = act(capsys, "restore", lake, first)
    assert (code, output) == (0, f"{lake} has the runs of version {first} again, as version {Lake(lake).version}\n")
    assert_holds(lake, tmp_path / "runs" / "killed")
    assert act(capsys, "history", lake)[1].splitlines()[0].endswith(f"restored version {first}")
    take(lake, tmp_path / "runs")
    assert content(lake) == newest


def test_old_files_are_deleted(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, before = Lake(lake, 2), content(lake)
    Path(lake / "tables" / "reigns" / "unknown.parquet").touch()
    assert act(capsys, "vacuum", lake) == (0, "0 files deleted\n")
    code, output = act(capsys, "vacuum", lake, "--keep", 0)
    assert code == 0
    assert int(output.split()[0]) > 0
    assert (lake / "tables" / "reigns" / "unknown.parquet").exists(), "a writer may be about to commit it"
    assert content(lake) == before
    assert {path for path in files_below(lake) if path.parent.name == "failovers"} == set(
        Lake(lake).files("tables", "failovers")
    )
    code, output = act(capsys, "restore", lake, first.version)
    assert code == 1
    assert output == f"understudy lake: the files of version 2 of {lake} have been deleted\n"
    assert content(lake) == before


def test_bad_input_is_named(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for action in (["history"], ["restore", 1], ["vacuum"]):
        code, output = act(capsys, action[0], tmp_path / "nowhere", *action[1:])
        assert code == 2, action
        assert "nowhere is not a lake: it has no table runs; `understudy ingest RUN --lake" in output
        assert not (tmp_path / "nowhere").exists()
    code, output = act(capsys, "restore", lake, 99)
    assert (code, f"has no version 99; `understudy lake history {lake}` lists them" in output) == (1, True)
    for words in (["restore", lake, "last"], ["vacuum", lake, "--keep", "-1"], ["vacuum", lake, "--keep", "1.5"]):
        with pytest.raises(SystemExit) as ended:
            act(capsys, *words)
        assert ended.value.code == 2
        assert "is not " in capsys.readouterr().err
