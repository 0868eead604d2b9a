"""Several processes change a lake at the same time, and it holds what their logs hold."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.history.lake.lakes import assert_counts_once, assert_holds, content, take, write_runs
from understudy.history.lake import delta, runs_table, writer
from understudy.history.lake.errors import LakeBusy
from understudy.history.lake.ingest import Ingested, remove
from understudy.history.lake.lake import Lake
from understudy.history.lake.writer import LakeWriter


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of four runs."""
    return write_runs(tmp_path / "runs", 3, records=50)


def test_two_writers_of_different_runs_at_once(runs: Path, tmp_path: Path) -> None:
    """Each commit of one falls between two commits of the other."""
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    one, other = write_with(lake, [runs / "random-0"]), write_with(lake, [runs / "random-1", runs / "killed"])
    alternate(one, other)
    assert_holds(lake, runs / "killed", runs / "random-0", runs / "random-1")
    assert_counts_once(lake)


def test_two_writers_of_the_same_run_at_once(runs: Path, tmp_path: Path) -> None:
    """The first to publish wins, if the other one has no later logs."""
    lake = tmp_path / "lake"
    results = alternate(write_with(lake, [runs / "random-0"]), write_with(lake, [runs / "random-0"]))
    assert sorted((result.added, result.unchanged) for result in results) == [([], ["random-0"]), (["random-0"], [])]
    results = alternate(write_with(lake, [runs]), write_with(lake, [runs]))
    assert sorted(run for result in results for run in result.added) == ["random-1", "random-2", "run-1"]
    assert_holds(lake, runs)
    LakeWriter(lake)
    assert_counts_once(lake)


def test_later_logs_win_whoever_is_first(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(runs / "killed", tmp_path / "earlier")
    log = tmp_path / "earlier" / "testbed-0001-0001.jsonl"
    log.write_bytes(log.read_bytes()[: log.read_bytes().index(b"\n") + 1])
    for first, second in ((tmp_path / "earlier", runs / "killed"), (runs / "killed", tmp_path / "earlier")):
        shutil.rmtree(lake, ignore_errors=True)
        alternate(write_with(lake, [first]), write_with(lake, [second]))
        assert_holds(lake, runs / "killed")
        LakeWriter(lake)
        assert_counts_once(lake)


def test_a_removal_while_others_write(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs / "killed", runs / "random-1")
    alternate(write_with(lake, [runs / "random-0"]), lambda: remove(["random-1"], lake))
    assert_holds(lake, runs / "killed", runs / "random-0")
    LakeWriter(lake)
    assert_counts_once(lake)


def test_a_writer_that_was_taken_for_dead_changes_nothing(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine has waited an hour for it, and has removed its rows."""
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    before = content(lake)
    publish = writer._published

    def late(*arguments: Any) -> Any:
        with monkeypatch.context() as later:
            later.setattr(writer, "_AT_WORK", set())
            later.setattr(runs_table, "_CLAIM_LASTS_S", -1.0)
            LakeWriter(lake)
        return publish(*arguments)

    monkeypatch.setattr(writer, "_published", late)
    with pytest.raises(LakeBusy, match=r"another process took this one for dead and has removed the rows of run 'rand"):
        take(lake, runs / "random-1")
    monkeypatch.undo()
    LakeWriter(lake)
    assert content(lake) == before
    assert_counts_once(lake)


@pytest.mark.parametrize(("host", "is_kept"), [("elsewhere 1", True), ("here 1", True), ("here 4194305", False)])
def test_rows_of_a_process_at_work_are_kept(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, is_kept: bool
) -> None:
    """A process of another host counts as at work for an hour, one of this host if it runs."""
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    with monkeypatch.context() as theirs:
        theirs.setattr(runs_table, "_this_process", lambda: host)
        theirs.setattr(writer, "_published", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            take(lake, runs / "random-1")
    LakeWriter(lake)
    assert bool(Lake(lake).uncounted) is is_kept
    assert_holds(lake, runs / "killed")
    monkeypatch.setattr(runs_table, "_CLAIM_LASTS_S", -1.0)
    LakeWriter(lake)
    assert not Lake(lake).uncounted
    assert_counts_once(lake)


def write_with(lake: Path, paths: list[Path]) -> Callable[[], Ingested]:
    return lambda: take(lake, *paths)


def alternate(*changes: Callable[[], Any]) -> list[Any]:
    """Make changes in threads that take turns: each makes one commit and waits for the other's."""
    turns = Turns(len(changes))
    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor() as pool:
        for name in ("create_described_table", "create_table", "commit_files", "overwrite", "open_table"):
            patched.setattr(delta, name, turns.taken(getattr(delta, name)))
        return [each.result(timeout=300) for each in [pool.submit(turns.run, *each) for each in enumerate(changes)]]


class Turns:
    """Lets one thread at a time run, in turn, until it has made its next call of a function."""

    def __init__(self, count: int) -> None:
        self._left = list(range(count))
        self._turn = threading.Condition()
        self._mine = threading.local()

    def run(self, number: int, change: Callable[[], Any]) -> Any:
        self._mine.number = number
        with self._turn:
            self._wait()
        try:
            return change()
        finally:
            with self._turn:
                self._left.remove(self._mine.number)
                self._turn.notify_all()

    def taken(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            try:
                return function(*arguments, **named)
            finally:
                with self._turn:
                    self._left.append(self._left.pop(0))
                    self._turn.notify_all()
                    self._wait()

        return call

    def _wait(self) -> None:
        assert self._turn.wait_for(lambda: self._left[0] == self._mine.number, timeout=240)
