"""Recorded lessons: packed, unpacked, damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.understudy.trials.lessons.simulated import shown
from understudy.trials.lessons import library
from understudy.trials.lessons.document import Lesson, OtherSide
from understudy.trials.lessons.library import archive_of
from understudy.trials.lessons.recording import (
    BadRecording,
    content_hash,
    described,
    pack,
    take_other,
    unpack,
    unpack_other,
)
from understudy.trials.lessons.running import run_lesson
from understudy.trials.lessons.side_run import RECORDED, SIMULATED, LessonNotShown


def test_what_is_packed_is_unpacked(tmp_path: Path) -> None:
    lesson, runs, _, folder = shown("shutdown")
    archive = tmp_path / "shutdown.tar.xz"
    pack(lesson, folder, archive)
    one, other = unpack(lesson, archive, tmp_path / "runs")
    assert (one.records, other.records) == (runs[0].records, runs[1].records)
    assert one.facts == runs[0].facts
    assert described(archive).content == content_hash(tmp_path / "runs") == content_hash(folder)


def test_packing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    lesson, _, _, folder = shown("shutdown")
    for name in ("a", "b"):
        pack(lesson, folder, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_one_other_record_changes_the_hash(tmp_path: Path) -> None:
    lesson, _, _, folder = shown("shutdown")
    archive = tmp_path / "shutdown.tar.xz"
    pack(lesson, folder, archive)
    unpack(lesson, archive, tmp_path / "runs")
    log = next(iter(sorted((tmp_path / "runs").rglob("*.jsonl"))))
    log.write_bytes(log.read_bytes().replace(b"broker", b"brocer", 1))
    assert content_hash(tmp_path / "runs") != content_hash(folder)


def test_a_damaged_or_missing_archive_is_named(tmp_path: Path) -> None:
    lesson, _, _, folder = shown("shutdown")
    archive = tmp_path / "shutdown.tar.xz"
    with pytest.raises(BadRecording, match="there is no recording"):
        unpack(lesson, archive, tmp_path / "runs")
    pack(lesson, folder, archive)
    archive.write_bytes(archive.read_bytes()[:2_000])
    with pytest.raises(BadRecording, match="it is damaged"):
        unpack(lesson, archive, tmp_path / "runs")


def test_a_recording_without_the_log_of_a_broker_is_refused(tmp_path: Path) -> None:
    lesson, _, _, folder = shown("shutdown")
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (log,) = (copy / "one").rglob("broker-2-0001-0001.jsonl")
    log.unlink()
    archive = tmp_path / "shutdown.tar.xz"
    pack(lesson, copy, archive)
    with pytest.raises(LessonNotShown, match=r"records missing: broker-2, from 0\.000 s"):
        unpack(lesson, archive, tmp_path / "runs")


# ------------------------------------------------------------------ a side that exists only as a recording


def recorded_beside(name: str) -> Lesson:
    """A lesson whose other side is no longer simulated."""
    other = OtherSide(called="as recorded", recording="make it so")
    return replace(shown(name).lesson, other=other)


def test_a_recorded_side_is_unpacked_and_not_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated, runs, _, folder = shown("shutdown")
    monkeypatch.setattr(library, "RECORDED", tmp_path)
    lesson = recorded_beside("shutdown")
    pack(simulated, folder, archive_of(lesson))
    notes: list[str] = []
    one, other = run_lesson(lesson, SIMULATED, tmp_path / "runs", seed=2, note=notes.append)
    assert (one.world, other.world) == (SIMULATED, RECORDED)
    assert other.records == runs[1].records
    assert one.records != runs[0].records
    assert notes[-1] == "as recorded: from its recording …"
    assert [run.world for run in unpack(lesson, archive_of(lesson), tmp_path / "both")] == [SIMULATED, RECORDED]


def test_the_run_of_a_folder_becomes_the_recording_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shown("kraft").runs[1].folder
    monkeypatch.setattr(library, "RECORDED", tmp_path)
    lesson = recorded_beside("kraft")
    _, taken = run_lesson(lesson, SIMULATED, tmp_path / "first", taken=source)
    pack(lesson, tmp_path / "first", archive_of(lesson))
    _, kept = run_lesson(lesson, SIMULATED, tmp_path / "again")
    assert kept.records == taken.records == shown("kraft").runs[1].records
    assert dict(taken.facts) == {}
    assert content_hash(tmp_path / "again") == described(archive_of(lesson)).content


def test_a_side_without_its_recording_is_named_with_what_makes_it(tmp_path: Path) -> None:
    simulated, _, _, folder = shown("shutdown")
    lesson = recorded_beside("shutdown")
    archive = tmp_path / "shutdown.tar.xz"
    says = (
        r"'as recorded'.* is not simulated; make a run with `make it so`.*`understudy lesson shutdown --record --other"
    )
    with pytest.raises(BadRecording, match=says):
        unpack_other(lesson, archive, tmp_path / "runs")
    only_one = tmp_path / "half"
    shutil.copytree(folder / "one", only_one / "one")
    pack(simulated, only_one, archive)
    with pytest.raises(BadRecording, match=f"it has no run of the side other: .*{says}"):
        unpack_other(lesson, archive, tmp_path / "runs")
    assert list((tmp_path / "runs").glob("*")) == []


def test_a_folder_without_one_run_is_no_recording(tmp_path: Path) -> None:
    lesson = recorded_beside("kraft")
    with pytest.raises(BadRecording, match=r"it has no event logs; make a run with `make it so`"):
        take_other(lesson, tmp_path / "none", tmp_path / "a")
    source = shown("kraft").runs[1].folder / "events"
    for name in ("x", "y"):
        for log in source.glob("*.jsonl"):
            other = tmp_path / "two" / f"{name}-{log.name}"
            other.parent.mkdir(exist_ok=True)
            other.write_text(log.read_text().replace('"run":"', f'"run":"{name}'))
    with pytest.raises(BadRecording, match="the event logs of 2 runs"):
        take_other(lesson, tmp_path / "two", tmp_path / "b")


def test_a_recording_that_lacks_records_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(shown("kraft").runs[1].folder / "events", source)
    log = source / "broker-2-0001-0001.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], *lines[5:]]))
    with pytest.raises(LessonNotShown, match="records missing: broker-2"):
        take_other(recorded_beside("kraft"), source, tmp_path / "runs")
