"""Event logs are read as they grow, each line once, up to a moment before now."""

from __future__ import annotations

import json
from pathlib import Path

from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.trials.soak.live.log_follower import HELD_BACK_MS, SoakLogFollower
from understudy.trials.soak.running_checks import WINDOW_MS


def line(seq: int, wall_ms: float, *, incarnation: int = 1, kind: str = "ControllerElected") -> bytes:
    data = {"broker_id": 1, "epoch": seq, "epoch_zk_version": seq, "session_id": 1}
    record = {
        "version": 1,
        "run": "r",
        "node": "broker-1",
        "incarnation": incarnation,
        "seq": seq,
        "mono_ms": wall_ms,
        "wall_ms": wall_ms,
        "type": kind,
        "data": data,
    }
    return json.dumps(record).encode() + b"\n"


def broker(run: Path, *, max_file_bytes: int = 1 << 20) -> JsonLinesFiles:
    return JsonLinesFiles(run / "broker-1" / "events", "broker-1", max_file_bytes=max_file_bytes)


def follower(run: Path, from_ms: float = 0.0) -> SoakLogFollower:
    return SoakLogFollower(run, (), from_ms)


def elections(log: SoakLogFollower, up_to_ms: float) -> int:
    return log.advance(up_to_ms + HELD_BACK_MS, up_to_ms + HELD_BACK_MS).controller_changes


def damage(log: SoakLogFollower) -> str:
    """Why the run cannot be judged; violations are left out, because the records are of no possible history."""
    return log.checks.unjudged()


def test_each_record_is_read_once_and_none_that_is_newer_than_the_cut(tmp_path: Path) -> None:
    files, log = broker(tmp_path), follower(tmp_path)
    files.write(line(1, 10.0))
    files.write(line(2, 20.0))
    files.write(line(3, 30.0))
    assert elections(log, 20.0) == 2
    assert elections(log, 20.0) == 0
    assert log.checks.records == 2
    assert log.checked_ms == 20.0
    files.write(line(4, 30.0))
    assert elections(log, 40.0) == 2
    assert damage(log) == ""
    assert log.size == sum(len(line(seq, 10.0)) for seq in (1, 2, 3, 4))


def test_records_of_an_earlier_boot_of_the_machine_are_not_held_back(tmp_path: Path) -> None:
    files, log = broker(tmp_path), follower(tmp_path)
    files.write(line(1, 1e9))
    files.write(line(2, 10.0))
    assert elections(log, 20.0) == 2


def test_a_record_is_read_when_its_line_is_whole(tmp_path: Path) -> None:
    files, log = broker(tmp_path), follower(tmp_path)
    whole = line(1, 10.0)
    files.write(whole[:20])
    assert elections(log, 50.0) == 0
    files.write(whole[20:])
    assert elections(log, 50.0) == 1
    assert damage(log) == ""


def test_the_torn_last_line_of_a_killed_process_is_not_missing(tmp_path: Path) -> None:
    files, log = broker(tmp_path), follower(tmp_path)
    files.write(line(1, 10.0))
    files.write(line(2, 20.0)[:30])
    broker(tmp_path).write(line(1, 30.0, incarnation=2))
    assert elections(log, 50.0) == 2
    assert damage(log) == ""


def test_files_are_read_in_order_however_many_there_are(tmp_path: Path) -> None:
    files, log = broker(tmp_path, max_file_bytes=600), follower(tmp_path)
    for seq in range(1, 8):
        files.write(line(seq, 10.0 * seq))
    assert elections(log, 35.0) == 3
    for seq in range(8, 12):
        files.write(line(seq, 10.0 * seq))
    assert elections(log, 1_000.0) == 8
    assert len(list((tmp_path / "broker-1" / "events").iterdir())) > 3
    assert damage(log) == ""


def test_after_a_damaged_line_or_a_gap_the_run_cannot_be_judged(tmp_path: Path) -> None:
    for name, second, witness in (
        ("damaged", b"{}\n", "b'{}' is no record"),
        ("gap", line(3, 20.0), "broker-1 incarnation 1 has record 3 after 1"),
    ):
        run = tmp_path / name
        files, log = broker(run), follower(run)
        files.write(line(1, 10.0))
        files.write(second)
        files.write(line(4, 30.0))
        elections(log, 50.0)
        assert damage(log).startswith("records are missing: ")
        assert witness in damage(log)


def test_what_was_before_is_not_counted_but_given_to_the_checks_that_need_it(tmp_path: Path) -> None:
    """The checks of logs begin one window earlier; records of logs before that are not even decoded."""
    began_ms = 10 * WINDOW_MS
    files, log = broker(tmp_path), follower(tmp_path, from_ms=began_ms)
    files.write(line(1, 10.0))
    files.write(line(2, 20.0, kind="RecordsAppended"))
    files.write(line(3, 30.0, kind="of-a-later-version"))
    files.write(line(4, began_ms - 5.0))
    files.write(line(5, began_ms + 5.0))
    assert elections(log, began_ms + 10.0) == 1
    assert log.checks.records == 3
    assert damage(log) == ""
    files.write(line(6, began_ms + 20.0, kind="RecordsAppended"))
    elections(log, began_ms + 30.0)
    assert "is no record" in damage(log)
