"""A lake is whole after a change that ended at any step, and the next one makes the same tables."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.foundation.eventlog.stories import RandomRun
from tests.shares import at_night, share_of
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import assert_counts_once, assert_holds, content, rows_below, take
from understudy.history.lake import delta, writer
from understudy.history.lake.errors import LakeError
from understudy.history.lake.ingest import remove
from understudy.history.lake.lake import Lake
from understudy.history.lake.parts import PartWriter
from understudy.history.lake.runs_table import Runs
from understudy.history.lake.writer import LakeWriter, UnknownRun, restore

ALL = 10**6
"""More steps than any change has."""

COMMITS = ("create_described_table", "create_table", "commit_files", "overwrite", "restore", "vacuum")
"""The functions that change Delta tables."""


class Crash(BaseException):
    """Ends a change at a step, as a kill would: nothing catches it."""


class Steps:
    """Counts the steps of changes in this process, and raises `Crash` in place of one of them.

    A step is a call of a function that changes a Delta table, or the end of a part's files. A change can
    only end before or after a call, because a commit is atomic.
    """

    def __init__(self) -> None:
        self.made: list[str] = []
        self._last: int | None = None

    def begin(self, last: int) -> None:
        """Let the first `last` steps happen."""
        self.made, self._last = [], last

    def end(self) -> None:
        self._last = None

    def step(self, name: str) -> None:
        if self._last is None:
            return
        if len(self.made) == self._last:
            self._last = None
            raise Crash
        self.made.append(name)

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            self.step(function.__name__)
            return function(*arguments, **named)

        return call


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    counting = Steps()
    for name in COMMITS:
        monkeypatch.setattr(delta, name, counting.counted(getattr(delta, name)))
    monkeypatch.setattr(PartWriter, "close", counting.counted(PartWriter.close))
    yield counting
    counting.end()


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    """A folder with `before`, a lake of two runs in one part, and `runs`, in which one of them has grown."""
    growing = write(RandomRun(0, records=8).logs, tmp_path / "runs" / "random-0")
    write(RandomRun(1, records=5).logs, tmp_path / "runs" / "random-1")
    log = max(growing.iterdir(), key=lambda log: log.stat().st_size)
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"\n") + 1])
    take(tmp_path / "before", tmp_path / "runs")
    log.write_bytes(whole)
    write(RandomRun(2, records=5).logs, tmp_path / "runs" / "random-2")
    return tmp_path


def ingest_all(lakes: Path, lake: Path) -> None:
    take(lake, lakes / "runs")


def remove_one(lakes: Path, lake: Path) -> None:
    was_removed = "random-1" not in Lake(lake).runs
    with pytest.raises(UnknownRun) if was_removed else contextlib.nullcontext():
        remove(["random-1"], lake)
    assert all("random-1" not in pq.read_table(path)["run"].to_pylist() for path in rows_below(lake))


def merge_all(lakes: Path, lake: Path) -> None:
    opened = LakeWriter(lake)
    opened._with_small_files.update(opened._runs.commit.tables)
    opened.compact()


@pytest.mark.parametrize("change", [ingest_all, remove_one])
def test_a_change_that_ends_at_any_step_is_made_or_not_and_made_by_the_next(
    lakes: Path, steps: Steps, change: Callable[[Path, Path], None]
) -> None:
    assert_ends_at_any_step(lakes, steps, change)


def test_merging_that_ends_at_any_step(lakes: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    take(lakes / "before", write(RandomRun(3, records=5).logs, lakes / "random-3"))
    assert len(Lake(lakes / "before").files("tables", "totals")) == 2
    monkeypatch.setattr(writer, "SMALL_FILES", 2)
    assert_ends_at_any_step(lakes, steps, merge_all)


def test_a_restore_that_ends_at_any_step(lakes: Path, steps: Steps) -> None:
    """While it is not finished, the lake is read as it was before, and is not changed by others."""
    lake = lakes / "lake"
    wanted = Lake(lakes / "before").version
    expected = content(lakes / "before")
    shutil.copytree(lakes / "before", lakes / "grown")
    ingest_all(lakes, lakes / "grown")
    grown = content(lakes / "grown")
    shutil.copytree(lakes / "grown", lake)
    steps.begin(ALL)
    restore(lake, wanted)
    steps.end()
    assert content(lake) == expected
    made = steps.made
    for place in different_places(made):
        shutil.rmtree(lake)
        shutil.copytree(lakes / "grown", lake)
        steps.begin(place)
        with pytest.raises(Crash):
            restore(lake, wanted)
        assert content(lake) == grown, place
        if place:
            with pytest.raises(LakeError, match=f"is being restored to version {wanted}"):
                ingest_all(lakes, lake)
        restore(lake, wanted)
        assert content(lake) == expected, place
        ingest_all(lakes, lake)
        assert content(lake) == grown
        assert_counts_once(lake)


def assert_ends_at_any_step(lakes: Path, steps: Steps, change: Callable[[Path, Path], None]) -> None:
    before, lake = content(lakes / "before"), lakes / "lake"
    shutil.copytree(lakes / "before", lakes / "after")
    steps.begin(ALL)
    change(lakes, lakes / "after")
    steps.end()
    after = content(lakes / "after")
    made = steps.made
    assert {"overwrite", "commit_files", "close"} <= set(made)
    for place in different_places(made):
        shutil.copytree(lakes / "before", lake)
        steps.begin(place)
        with pytest.raises(Crash):
            change(lakes, lake)
        at = f"step {place}, after {made[:place][-1:]}"
        assert content(lake) in (before, after), at
        change(lakes, lake)
        assert content(lake) == after, at
        assert_counts_once(lake)
        shutil.rmtree(lake)


def different_places(made: list[str]) -> list[int]:
    """Return the first and last place of each kind of step and those around commits of `runs`, or a third."""
    lasts = {name: place for place, name in enumerate(made)}
    runs = [place for place, name in enumerate(made) if name == "overwrite"]
    after = [place + 1 for place in runs if place + 1 < len(made)]
    places = sorted({*lasts.values(), *map(made.index, lasts), *runs, *after})
    share = share_of("lake-crashes")
    return [place for number, place in enumerate(places) if (number + len(places)) % 3 < share]


def test_the_first_ingest_may_end_at_any_step(lakes: Path, steps: Steps) -> None:
    """A lake that was not finished is no reason to refuse the next ingest."""
    lake = lakes / "lake"
    steps.begin(ALL)
    ingest_all(lakes, lake)
    steps.end()
    made = steps.made
    for last in (0, 1, 2, 3, 20, len(made) - 1):
        shutil.rmtree(lake)
        steps.begin(last)
        with pytest.raises(Crash):
            ingest_all(lakes, lake)
        steps.end()
        ingest_all(lakes, lake)
        assert_holds(lake, lakes / "runs")
        assert_counts_once(lake)


def test_a_table_that_was_begun_and_has_no_commit_is_no_table(lakes: Path) -> None:
    """HDFS has the folder of a log before it has the first commit, and so does a disk."""
    lake = lakes / "before"
    for folder in ("records/Ack", "tables/none"):
        shutil.rmtree(lake / folder, ignore_errors=True)
        (lake / folder / "_delta_log").mkdir(parents=True)
    ingest_all(lakes, lake)
    LakeWriter(lake).vacuum(0)
    assert_holds(lake, lakes / "runs")


KILL_AT = """
import os, signal, sys
from understudy.history.lake import delta
from understudy.history.lake.ingest import find_logs, ingest
from understudy.history.storage.paths import storage_path

name, number, when = sys.argv[3:]
function, calls = getattr(delta, name), 0

def kill(*arguments, **named):
    global calls
    calls += 1
    if calls == int(number) and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = function(*arguments, **named)
    if calls == int(number) and when == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return result

groups = find_logs([storage_path(sys.argv[1])])
setattr(delta, name, kill)
ingest(groups, storage_path(sys.argv[2]))
"""


EARLIER = at_night("exceptions end changes at these places each time")


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("overwrite 1 before", marks=EARLIER),  # claimed
        pytest.param("commit_files 1 after", marks=EARLIER),  # one table has its rows
        "overwrite 2 before",  # all have them, and they do not count
        "overwrite 2 after",  # they count, and the rows that they replace are still there
        pytest.param("overwrite 3 before", marks=EARLIER),
    ],
)
def test_a_process_that_is_killed(lakes: Path, moment: str) -> None:
    """As above, with the operating system's own kill. Its rows are removed by the next ingest, on the same machine."""
    lake = lakes / "before"
    before = content(lake)
    shutil.copytree(lake, lakes / "after")
    ingest_all(lakes, lakes / "after")
    after = content(lakes / "after")
    command = [sys.executable, "-c", KILL_AT, str(lakes / "runs"), str(lake), *moment.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, f"it was not killed at {moment!r}: {done.stderr}"
    assert content(lake) in (before, after)
    ingest_all(lakes, lake)
    assert content(lake) == after
    LakeWriter(lake)
    assert not Runs(lake).uncounted
    assert_counts_once(lake)
