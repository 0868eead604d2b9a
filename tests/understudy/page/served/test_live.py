"""A run is followed while its event logs grow."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path

import pytest

from tests.understudy.cli.terminal import eventually
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.page.recorded.runs import NoSuchRun
from understudy.page.served import live
from understudy.page.served import server as server_module
from understudy.page.served.live import HELD_BACK_MS, LiveRun
from understudy.page.served.server import LOWER_BY, LOWEST_PRIORITY, PageServer, open_run


def line(seq: int, ms: float, *, node: str = "broker-1", incarnation: int = 1, run: str = "r") -> bytes:
    record = {
        "version": 1,
        "run": run,
        "node": node,
        "incarnation": incarnation,
        "seq": seq,
        "mono_ms": ms,
        "wall_ms": ms,
        "type": "StepReached",
        "data": {"step": "a step"},
    }
    return json.dumps(record).encode() + b"\n"


def log(folder: Path, node: str = "broker-1", *, max_file_bytes: int = 1 << 20) -> JsonLinesFiles:
    return JsonLinesFiles(folder / node / "events", node, max_file_bytes=max_file_bytes)


def shown(run: LiveRun) -> list[tuple[str, int, int]]:
    """(node, incarnation, seq) of the records that were passed on."""
    records = run.chunks.since(0, 10_000)
    return [(node, incarnation, seq) for _, node, incarnation, seq, *_ in map(json.loads, records)]


@pytest.fixture
def run(tmp_path: Path) -> LiveRun:
    return LiveRun(tmp_path, "r")


def test_records_pass_when_they_are_old_enough_sorted_by_clock(run: LiveRun, tmp_path: Path) -> None:
    first, second = log(tmp_path, "broker-1"), log(tmp_path, "broker-2")
    first.write(line(1, 1000.0))
    first.write(line(2, 1020.0))
    second.write(line(1, 1010.0, node="broker-2"))
    run.advance(1005.0 + HELD_BACK_MS)
    assert shown(run) == [("broker-1", 1, 1)]
    run.advance(1020.0 + HELD_BACK_MS)
    assert shown(run) == [("broker-1", 1, 1), ("broker-2", 1, 1), ("broker-1", 1, 2)]
    assert run.now_us == round((1020.0 + HELD_BACK_MS) * 1000)


def test_each_record_is_named_as_it_is_passed_on(tmp_path: Path) -> None:
    named: list[int] = []
    run = LiveRun(tmp_path, "r", lambda record: named.append(record.seq))
    files = log(tmp_path)
    files.write(line(1, 1000.0))
    files.write(line(2, 1020.0))
    run.advance(1005.0 + HELD_BACK_MS)
    assert named == [1]
    run.finish()
    assert named == [1, 2]


def test_a_late_record_is_appended_and_the_others_keep_their_numbers(run: LiveRun, tmp_path: Path) -> None:
    log(tmp_path, "broker-1").write(line(1, 1000.0))
    run.advance(2000.0)
    log(tmp_path, "broker-2").write(line(1, 900.0, node="broker-2"))
    run.advance(2001.0)
    assert shown(run) == [("broker-1", 1, 1), ("broker-2", 1, 1)]


def test_a_line_that_is_being_written_is_read_when_it_is_whole(run: LiveRun, tmp_path: Path) -> None:
    files = log(tmp_path)
    files.write(line(1, 1000.0))
    files.write(line(2, 1001.0)[:20])
    run.advance(2000.0)
    assert (shown(run), run.findings) == ([("broker-1", 1, 1)], [])
    files.write(line(2, 1001.0)[20:])
    run.advance(2001.0)
    assert shown(run) == [("broker-1", 1, 1), ("broker-1", 1, 2)]


def test_new_files_incarnations_and_nodes_appear(run: LiveRun, tmp_path: Path) -> None:
    size = len(line(1, 1000.0))
    files = log(tmp_path, max_file_bytes=2 * size)
    for seq in (1, 2, 3):
        files.write(line(seq, 1000.0 + seq))
    run.advance(2000.0)
    log(tmp_path).write(line(1, 2001.0, incarnation=2))
    log(tmp_path, "testbed").write(line(1, 2002.0, node="testbed"))
    run.advance(3000.0)
    assert shown(run) == [*(("broker-1", 1, seq) for seq in (1, 2, 3)), ("broker-1", 2, 1), ("testbed", 1, 1)]


def test_the_torn_end_of_a_killed_incarnation_does_not_hide_the_next(run: LiveRun, tmp_path: Path) -> None:
    log(tmp_path).write(line(1, 1000.0)[:30])
    run.advance(2000.0)
    log(tmp_path).write(line(1, 1500.0, incarnation=2))
    run.advance(2001.0)
    assert shown(run) == [("broker-1", 2, 1)]


def test_long_logs_are_read_in_pieces_and_still_come_in_order(
    run: LiveRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_BYTES", 1_000)
    choose = random.Random(1)
    written = []
    files = {node: log(tmp_path, node) for node in ("broker-1", "broker-2", "testbed")}
    seqs = dict.fromkeys(files, 0)
    for ms in range(1000, 1200):
        node = choose.choice(["broker-1", "broker-1", "broker-1", "broker-2", "testbed"])
        seqs[node] += 1
        files[node].write(line(seqs[node], float(ms), node=node))
        written.append((node, 1, seqs[node]))
    rounds = 1
    while run.advance(5000.0):
        rounds += 1
        assert shown(run) == written[: len(run.chunks)]
    assert rounds > 10
    assert shown(run) == written


def test_what_is_left_at_the_end_passes_at_once(run: LiveRun, tmp_path: Path) -> None:
    log(tmp_path).write(line(1, 1000.0))
    run.advance(1001.0)
    assert shown(run) == []
    assert run.finish() is False
    assert shown(run) == [("broker-1", 1, 1)]
    assert (run.is_live, run.facts()["missing"]) == (True, None)
    run.end(run.judge())
    assert (run.is_live, run.facts()["missing"]) == (False, [])


def test_of_two_records_with_one_number_both_are_shown(run: LiveRun, tmp_path: Path) -> None:
    log(tmp_path, "broker-1").write(line(1, 1000.0))
    log(tmp_path, "broker-1").write(line(1, 1000.0).replace(b"a step", b"another"))
    (tmp_path / "copy").mkdir()
    (tmp_path / "broker-1" / "events").rename(tmp_path / "copy" / "events")
    log(tmp_path, "broker-1").write(line(1, 1000.0).replace(b"a step", b"a third"))
    run.advance(2000.0)
    assert shown(run) == [("broker-1", 1, 1)] * 3


def test_a_clock_of_an_earlier_boot_holds_nothing_back(run: LiveRun, tmp_path: Path) -> None:
    log(tmp_path).write(line(1, 9_000_000.0))
    run.advance(1000.0)
    run.advance(1000.0 + HELD_BACK_MS)
    assert shown(run) == [("broker-1", 1, 1)]


def test_a_clock_that_goes_back_does_not_change_the_sequence(run: LiveRun, tmp_path: Path) -> None:
    files = log(tmp_path)
    files.write(line(1, 1000.0))
    files.write(line(2, 900.0))
    run.advance(2000.0)
    assert shown(run) == [("broker-1", 1, 1), ("broker-1", 1, 2)]


def test_other_runs_are_left_out_and_damage_is_listed(run: LiveRun, tmp_path: Path) -> None:
    files = log(tmp_path)
    files.write(line(1, 1000.0, run="earlier"))
    files.write(b"no record\n")
    files.write(b"nor this\n")
    files.write(line(2, 1000.0).replace(b"StepReached", b"Unheard"))
    files.write(line(3, 1000.0).replace(b'"version": 1', b'"version": 2'))
    files.write(line(4, 1000.0))
    run.advance(2000.0)
    assert shown(run) == [("broker-1", 1, 4)]
    assert [(finding["kind"], finding["what"], finding["count"]) for finding in run.facts(tmp_path)["findings"]] == [
        ("not a record", "", 2),
        ("unknown type", "Unheard", 1),
        ("unknown version", "version 2", 1),
    ]
    first, *_ = run.facts(tmp_path)["findings"]
    assert first["file"] == "broker-1/events/broker-1-0001-0001.jsonl"
    assert first["text"] == "not a record (broker-1/events/broker-1-0001-0001.jsonl, 2 of them)"


def test_a_log_that_cannot_be_read_ends_the_following_and_is_named(run: LiveRun, tmp_path: Path) -> None:
    log(tmp_path).write(line(1, 1000.0))
    path = tmp_path / "broker-2" / "events" / "broker-2-0001-0001.jsonl"
    path.mkdir(parents=True)
    with PageServer(run, folder=tmp_path):
        eventually(lambda: not run.is_live, "the following has ended")
    assert [(finding["file"], finding["kind"], finding["what"]) for finding in run.facts(tmp_path)["findings"]] == [
        ("broker-2/events/broker-2-0001-0001.jsonl", "unreadable file", "Is a directory")
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux a thread has a priority of its own")
def test_the_server_of_a_running_cluster_leaves_the_processor_to_the_brokers(run: LiveRun, tmp_path: Path) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    log(tmp_path).write(line(1, 1000.0))
    with PageServer(run, folder=tmp_path):
        eventually(lambda: len(run.chunks), "the logs have been looked at")
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "understudy-page")
        assert thread.native_id is not None
        assert os.getpriority(os.PRIO_PROCESS, thread.native_id) == min(own + LOWER_BY, LOWEST_PRIORITY)
        assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_large_logs_of_a_run_that_has_ended_are_shown_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_BYTES", 1_000)
    monkeypatch.setattr(server_module, "LARGE_BYTES", 1_000)
    for node in ("broker-1", "broker-2"):
        files = log(tmp_path, node)
        for seq in range(1, 51):
            files.write(line(seq, float(seq), node=node))
    run, folder, has_ended = open_run([tmp_path])
    assert isinstance(run, LiveRun)
    assert (run.name, folder, has_ended()) == ("r", tmp_path, True)
    assert run.finish()
    with PageServer(run, folder=folder, has_ended=has_ended) as server:
        eventually(lambda: not run.is_live, "everything was read")
        assert "#" not in server.url
    assert shown(run) == [(node, 1, seq) for seq in range(1, 51) for node in ("broker-1", "broker-2")]


def test_logs_of_several_runs_are_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "LARGE_BYTES", 1)
    log(tmp_path, "broker-1").write(line(1, 1.0, run="first"))
    log(tmp_path, "broker-2").write(line(1, 1.0, run="second", node="broker-2"))
    with pytest.raises(NoSuchRun, match="2 runs; choose one by --run-id: first, second"):
        open_run([tmp_path])
