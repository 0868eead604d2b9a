"""Lines that are decoded many at a time give the rows that they give one by one, however they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.foundation.eventlog.stories import RandomRun
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import assert_holds, content, take
from understudy.history.lake import record_rows, runs_to_parts
from understudy.history.lake.lake import Lake

Rewrite = Callable[[dict[str, Any]], dict[str, Any]]


def as_it_is(line: dict[str, Any]) -> dict[str, Any]:
    return line


def with_a_former_name(line: dict[str, Any]) -> dict[str, Any]:
    former = {"FaultInjected": "FaultStruck", "LeadershipNotWritten": "LeaderElectionFailed"}
    return line | {"type": former.get(line["type"], line["type"])}


def backwards(line: dict[str, Any]) -> dict[str, Any]:
    return dict(reversed(line.items()))


def with_another_type_before_its_own(line: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"type": "RequestSent"} | line.pop("data")} | line


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for seed in range(3):
        write(RandomRun(seed, records=300).logs, tmp_path / "logs" / str(seed))
    return tmp_path / "logs"


def rewrite(logs: Path, change: Rewrite) -> None:
    for file in logs.rglob("*.jsonl"):
        lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        file.write_bytes(b"".join(msgspec.json.encode(change(line)) + b"\n" for line in lines))


@pytest.mark.parametrize("at_a_time", [1, 7, record_rows._DECODED_LINES])
@pytest.mark.parametrize(
    "change",
    [as_it_is, with_a_former_name, backwards, with_another_type_before_its_own],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_rows_do_not_depend_on_how_lines_are_written_and_decoded(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Rewrite, at_a_time: int
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(runs_to_parts._MeasuredRun, "is_clean", False)
        take(tmp_path / "expected", logs)
    monkeypatch.setattr(record_rows, "_DECODED_LINES", at_a_time)
    rewrite(logs, change)
    take(tmp_path / "lake", logs)
    assert content(tmp_path / "lake") == content(tmp_path / "expected")


def test_a_torn_last_line_is_left_out(logs: Path, tmp_path: Path) -> None:
    log = max(logs.rglob("*.jsonl"), key=lambda file: file.stat().st_size)
    log.write_bytes(log.read_bytes()[:-20])
    take(tmp_path / "lake", logs)
    assert_holds(tmp_path / "lake", logs)
    assert [finding.file for finding in Lake(tmp_path / "lake").findings()] == [str(log)]
