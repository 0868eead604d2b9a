"""`understudy replay` says before Spark starts that there is no event log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from understudy.cli.main import main


@pytest.mark.parametrize("engine", ["spark", "python"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("empty", "no event-log files (empty)"),
        ("missing", "no event-log files: no such file or folder (missing)"),
        ("/dev/null", "no event-log files: a device, not a file or a folder (/dev/null)"),
    ],
)
def test_a_path_without_event_logs_is_refused_before_spark_starts(
    engine: str,
    path: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a Java, Spark would fail with another message and exit code 1."""
    monkeypatch.setenv("UNDERSTUDY_JAVA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert main(["replay", path, "--engine", engine]) == 2
    expected = "there is no record to replay; expected event-log files (*.jsonl) in the given folders"
    assert capsys.readouterr().err == f"understudy replay: {expected}\n  {why}\n"


def test_logs_without_a_record_are_refused_as_a_missing_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broker-1-0001-0001.jsonl").touch()
    assert main(["replay", str(tmp_path), "--engine", "python"]) == 2
    assert "there is no record to replay" in capsys.readouterr().err


def test_a_device_cannot_be_followed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--follow", "/dev/null"]) == 2
    expected = "/dev/null is a device; expected the folder of a run, which may still be empty"
    assert capsys.readouterr().err == f"understudy replay: {expected}\n"


def test_the_report_is_also_written_as_html(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for node, lines in killed_controller().lines.items():
        (tmp_path / f"{node}-0001-0001.jsonl").write_bytes(b"".join(lines))
    page = tmp_path / "page.html"
    assert main(["replay", str(tmp_path), "--engine", "python", "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(f"\npage with pictures: {page}\n")
    assert 'aria-label="Phases of each failover"' in page.read_text(encoding="utf-8")
    assert main(["replay", str(tmp_path), "--engine", "python", "--html", str(tmp_path / "no" / "page.html")]) == 1
    assert "understudy replay: --html " in capsys.readouterr().err
