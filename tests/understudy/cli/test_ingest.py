"""`understudy ingest`: what it prints and its exit codes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.full_disk import no_larger_file
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import assert_holds
from understudy.cli.analysis.ingest import describe
from understudy.cli.main import main
from understudy.history.lake import delta
from understudy.history.lake.ingest import Ingested
from understudy.history.lake.lake import Lake
from understudy.history.lake.runs_to_parts import RefusedRun


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(killed_controller(), tmp_path / "runs" / "killed")
    write(RandomRun(1, records=50).logs, tmp_path / "runs" / "random-1")
    return Path("runs")


def ingest(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Return the exit code and the whole output."""
    code = main(["ingest", "--lake", "lake", *arguments])
    output = capsys.readouterr()
    return code, output.out + output.err


def test_runs_are_added_once_and_removed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output = ingest(capsys, "runs")
    assert code == 0
    assert output.startswith("lake has version 2: 2 runs added, 0 replaced, 0 unchanged; ")
    assert_holds(Path("lake"), runs)
    assert ingest(capsys, "runs/killed", "runs/random-1") == (
        0,
        "lake has version 2: 0 runs added, 0 replaced, 2 unchanged; 0 records written\n",
    )
    assert ingest(capsys, "--remove", "run-1") == (0, "removed 1 runs; lake has version 4\n")
    assert list(Lake("lake").runs) == ["random-1"]
    code, output = ingest(capsys, "--remove", "run-1")
    assert (code, output) == (2, f"understudy ingest: {Path('lake').absolute()} has no run 'run-1'; it has 1 others\n")


def test_refused_runs_and_skipped_files_are_printed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "killed" / "broker-9-0001-0001.jsonl").touch()
    code, output = ingest(capsys, "runs")
    assert code == 0
    assert "skipped " in output
    assert "broker-9-0001-0001.jsonl: no line in it names a run\n" in output
    log = runs / "killed" / "broker-2-0001-0001.jsonl"
    log.write_bytes(log.read_bytes()[:-5])
    code, output = ingest(capsys, "runs")
    assert code == 1
    assert "refused run run-1: run id 'run-1' is used by different runs: " in output


def test_a_path_that_does_not_exist_is_refused_before_anything_is_written(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = ingest(capsys, "runs", "misspelt")
    assert (code, Path("lake").exists()) == (2, False)
    assert "no event-log files at or below misspelt: no such file or folder; expected *.jsonl" in output


def test_a_file_that_is_no_log_and_an_empty_folder_are_printed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.txt").write_text("not ours\n")
    Path("empty").mkdir()
    code, output = ingest(capsys, "notes.txt")
    assert (code, Path("lake").exists()) == (2, False)
    assert "no line of notes.txt names a run; expected event logs, as a cluster, " in output
    code, output = ingest(capsys, "runs/killed", "empty", "notes.txt")
    assert code == 0
    assert "skipped empty: no line in it names a run\n" in output
    assert f"skipped {Path('notes.txt').absolute()}: no line in it names a run\n" in output


def test_a_full_disk_is_named_and_the_same_command_goes_on(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with no_larger_file(1_000):
        assert ingest(capsys, "runs") == (
            1,
            "understudy ingest: the lake lake cannot be written: File too large; the same command goes on when it can "
            "be\n",
        )
    assert ingest(capsys, "runs")[0] == 0
    assert_holds(Path("lake"), runs)


def test_many_refusals_are_counted() -> None:
    result = Ingested(refused=[RefusedRun(f"run-{number}", "why") for number in range(7)])
    assert describe(result, Path("lake"))[1:] == [
        *(f"refused run run-{number}: why" for number in range(5)),
        "and 2 more runs refused",
    ]


def test_many_runs_with_missing_records_are_counted() -> None:
    result = Ingested(incomplete={f"run-{number}": "broker-4 lacks records" for number in range(6)})
    assert describe(result, Path("lake"))[1:] == [
        *(f"run run-{number} has missing records: broker-4 lacks records" for number in range(5)),
        "and 1 more runs with missing records",
    ]


def test_what_is_no_lake_or_no_log_has_exit_code_2(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ingest(capsys, "nowhere")[0] == 2
    code, output = ingest(capsys, "--remove", "run-1")
    assert code == 2
    assert output.startswith("understudy ingest: lake is not a lake: it has no table runs; `understudy ingest RUN")
    assert not Path("lake").exists()
    Path("lake").mkdir()
    Path("lake/notes.txt").touch()
    code, output = ingest(capsys, "runs")
    assert code == 2
    assert output.startswith("understudy ingest: lake is not a lake: it holds notes.txt and no table runs")
    shutil.rmtree("lake")
    assert ingest(capsys, "runs")[0] == 0
    created = Path("lake/runs/_delta_log/00000000000000000000.json")
    created.write_text(created.read_text().replace('"understudy.format":"2"', '"understudy.format":"3"'))
    code, output = ingest(capsys, "runs")
    assert code == 2
    assert "has format 3, and this Understudy knows formats up to 2" in output
    shutil.rmtree("lake")
    Path("lake/manifest").mkdir(parents=True)
    Path("lake/manifest/0000000001.json").write_text("{}")
    code, output = ingest(capsys, "runs")
    assert code == 2
    assert (
        "lake is a lake of an earlier Understudy, before lakes were Delta tables; ingest its event logs into" in output
    )


def test_a_busy_lake_has_exit_code_1(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(*_: object) -> None:
        raise delta.Changed

    assert ingest(capsys, "runs")[0] == 0
    monkeypatch.setattr(delta, "overwrite", changed)
    code, output = ingest(capsys, "--remove", "run-1")
    assert code == 1
    assert output.startswith("understudy ingest: other processes change ")
    assert output.endswith(" again and again; run the command again later\n")


def test_a_lake_that_cannot_be_written_has_exit_code_1(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "lake/tables")

    monkeypatch.setattr("understudy.history.lake.parts.PartWriter.close", full)
    assert ingest(capsys, "runs") == (
        1,
        "understudy ingest: the lake lake cannot be written: lake/tables: No space left on device; the same command "
        "goes on when it can be\n",
    )


def test_runs_and_removals_exclude_each_other(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["runs", "--remove", "run-1"]):
        with pytest.raises(SystemExit) as ended:
            ingest(capsys, *arguments)
        assert ended.value.code == 2
        assert "give either RUN folders to ingest, or --remove RUN_ID" in capsys.readouterr().err


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
from understudy.cli.main import main
sys.exit(main(["ingest", "runs", "--lake", "lake"]))
"""


def test_a_missing_pyarrow_is_named(runs: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYARROW], capture_output=True, text=True, timeout=60, env=os.environ, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        "understudy ingest: Apache Arrow is needed, which is not installed: pip install 'kafka-understudy[spark]'\n"
    )
