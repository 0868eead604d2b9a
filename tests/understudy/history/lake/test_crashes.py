"""A lake is whole after an ingest that ended at any step, and the next ingest makes the same tables."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import assert_holds, content, counted_files, files_below, take
from understudy.history.lake import manifest, writer
from understudy.history.lake.ingest import remove
from understudy.history.lake.lake import Lake
from understudy.history.lake.writer import UnknownRun

ALL = 10**6
"""More steps than any change has."""


class Crash(BaseException):
    """Ends an ingest at a step, as a kill would: nothing catches it."""


class Steps:
    """Counts the changes that this process makes below a folder, and raises `Crash` in place of one of them."""

    def __init__(self) -> None:
        self.folder: str | None = None
        self.made: list[str] = []
        self._last = 0

    def begin(self, folder: Path, last: int) -> None:
        """Let the first `last` changes happen."""
        self.folder, self.made, self._last = str(folder), [], last

    def end(self) -> None:
        self.folder = None

    def step(self, name: str, path: str) -> None:
        if self.folder is not None and path.startswith(f"{self.folder}/"):
            if len(self.made) == self._last:
                self.folder = None
                raise Crash
            self.made.append(f"{name} {path.removeprefix(self.folder)}")

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & os.O_CREAT:
                self.step("create", str(path))
        elif event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir"):
            self.step(event, str(arguments[0]))
        elif event == "os.link":
            self.step(event, str(arguments[1]))


STEPS = Steps()
sys.addaudithook(STEPS.audit)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """The steps of this process, also the syncs to disk, for which there is no audit event."""

    def sync_file(descriptor: int) -> None:
        STEPS.step("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync_before(descriptor)

    sync_before = manifest.sync_file
    monkeypatch.setattr(manifest, "sync_file", sync_file)
    monkeypatch.setattr("understudy.history.lake.parts.sync_file", sync_file)
    return STEPS


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    """A folder with `before`, a lake of two runs in one part, and `runs`, in which one of them has grown."""
    killed = write(killed_controller(), tmp_path / "runs" / "killed")
    write(RandomRun(1, records=12).logs, tmp_path / "runs" / "random-1")
    log = killed / "broker-1-0001-0001.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"\n") + 1])
    take(tmp_path / "before", tmp_path / "runs")
    log.write_bytes(whole)
    write(RandomRun(2, records=12).logs, tmp_path / "runs" / "random-2")
    return tmp_path


def ingest_all(lakes: Path, lake: Path) -> None:
    take(lake, lakes / "runs")


def remove_one(lakes: Path, lake: Path) -> None:
    was_removed = "random-1" not in Lake(lake).runs
    with pytest.raises(UnknownRun) if was_removed else contextlib.nullcontext():
        remove(["random-1"], lake)
    assert all("random-1" not in pq.read_table(path)["run"].to_pylist() for path in files_below(lake))


def ingest_nothing(lakes: Path, lake: Path) -> None:
    """Only delete what does not count."""
    with writer.LakeWriter(lake):
        pass


def merge_all(lakes: Path, lake: Path) -> None:
    with writer.LakeWriter(lake) as opened:
        opened.compact()


@pytest.mark.parametrize("change", [ingest_all, remove_one])
def test_a_change_that_ends_at_any_step_is_made_or_not_and_made_by_the_next(
    lakes: Path, steps: Steps, change: Callable[[Path, Path], None]
) -> None:
    assert_ends_at_any_step(lakes, steps, change)


def test_merging_that_ends_at_any_step(lakes: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest_all(lakes, lakes / "before")
    assert len(Lake(lakes / "before").files("tables", "totals")) == 2
    monkeypatch.setattr(writer, "SMALL_PARTS", 2)
    assert_ends_at_any_step(lakes, steps, merge_all)


def assert_ends_at_any_step(lakes: Path, steps: Steps, change: Callable[[Path, Path], None]) -> None:
    before, lake = content(lakes / "before"), lakes / "lake"
    shutil.copytree(lakes / "before", lakes / "after")
    steps.begin(lakes / "after", ALL)
    change(lakes, lakes / "after")
    steps.end()
    after = content(lakes / "after")
    places = different_places(steps.made)
    assert {steps.made[place].split()[0] for place in places} >= {"create", "sync", "os.link", "os.remove"}
    for place in places:
        shutil.copytree(lakes / "before", lake)
        steps.begin(lake, place)
        with pytest.raises(Crash):
            change(lakes, lake)
        at = f"step {place}, after {steps.made[-1:]}"
        assert content(lake) in (before, after), at
        change(lakes, lake)
        assert content(lake) == after, at
        ingest_nothing(lakes, lake)
        assert len(manifest.versions(lake)) <= writer.KEPT_VERSIONS, at
        shutil.rmtree(lake)


def different_places(made: list[str]) -> list[int]:
    """Return the first and the last place of each kind of step, for example of creating files in `tables`."""
    kinds = [f"{step.split()[0]} {step.split('/')[1]}" for step in made]
    lasts = {kind: place for place, kind in enumerate(kinds)}
    return sorted({*lasts.values(), *map(kinds.index, lasts)})


def test_the_first_ingest_may_end_at_any_step(lakes: Path, steps: Steps) -> None:
    """A lake that was not finished is no reason to refuse the next ingest."""
    lake = lakes / "lake"
    for last in (0, 1, 2, 3, 10, 40, 60):
        steps.begin(lake, last)
        with pytest.raises(Crash):
            ingest_all(lakes, lake)
        steps.end()
        ingest_all(lakes, lake)
        assert_holds(lake, lakes / "runs")
        shutil.rmtree(lake)


KILL_AT = """
import os, signal, sys
from pathlib import Path
from understudy.history.lake.ingest import find_logs, ingest

moment = sys.argv[3]

def kill(event, arguments):
    if event == moment.split()[0] and moment.split()[1] in str(arguments):
        os.kill(os.getpid(), signal.SIGKILL)

groups = find_logs([Path(sys.argv[1])])
sys.addaudithook(kill)
ingest(groups, Path(sys.argv[2]))
"""


@pytest.mark.parametrize(
    "moment",
    [
        "open records/RequestSent",
        "open .tmp",
        "os.link manifest",
        "os.remove .tmp",
        "os.remove .json",
        "os.remove .parquet",
    ],
)
def test_a_process_that_is_killed(lakes: Path, moment: str) -> None:
    """As above, with the operating system's own kill: nothing is flushed, closed or unlocked by Python."""
    lake = lakes / "before"
    take(lake, write(RandomRun(3, records=12).logs, lakes / "random-3"))
    leftover = Lake(lake).files("tables", "totals")[0]
    shutil.copy(leftover, leftover.with_name("0123456789abcdef.parquet"))
    before = content(lake)
    shutil.copytree(lake, lakes / "after")
    ingest_all(lakes, lakes / "after")
    after = content(lakes / "after")
    command = [sys.executable, "-c", KILL_AT, str(lakes / "runs"), str(lake), moment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, f"it was not killed at {moment!r}: {done.stderr}"
    assert content(lake) in (before, after)
    ingest_all(lakes, lake)
    assert content(lake) == after
    ingest_nothing(lakes, lake)
    kept = [manifest.read_version(lake, version) for version in manifest.versions(lake)]
    assert len(kept) == writer.KEPT_VERSIONS
    assert {path.stem for path in files_below(lake)} == {name for each in kept for name in each.parts}
    assert counted_files(Lake(lake)) <= files_below(lake)
