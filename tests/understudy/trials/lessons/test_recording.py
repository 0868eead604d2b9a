"""Recorded lessons: packed, unpacked, damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.understudy.trials.lessons.simulated import shown
from understudy.trials.lessons.recording import BadRecording, content_hash, described, pack, unpack
from understudy.trials.lessons.running import LessonNotShown


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
