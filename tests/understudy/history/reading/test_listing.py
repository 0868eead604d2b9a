"""Event-log files are listed by folder, each once, whatever the form of the given paths."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import StepReached
from understudy.history.reading.listing import LogListing, list_files
from understudy.history.report.runs import find_logs

LOG, SECOND = "broker-1-0001-0001.jsonl", "broker-1-0001-0002.jsonl"


def make(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def test_paths_are_sorted_by_their_parts_and_a_file_is_there_once(tmp_path: Path) -> None:
    files = [tmp_path / "a" / LOG, tmp_path / "a" / "z" / LOG, tmp_path / "a" / SECOND, tmp_path / "a-b" / LOG]
    make(*files, tmp_path / "a" / "notes.txt")
    listing = list_files([tmp_path / "a" / "z", tmp_path, files[0], tmp_path / "a" / "notes.txt"])
    assert listing.paths() == sorted([*files, tmp_path / "a" / "notes.txt"])
    assert (listing.count, listing.findings) == (5, ())
    assert listing.names[f"{tmp_path}/a/"] == (LOG, SECOND, "notes.txt")


def test_relative_paths_stay_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / LOG, tmp_path / "run" / LOG)
    monkeypatch.chdir(tmp_path / "run")
    assert list_files([Path()]).names == list_files([Path(LOG)]).names == {"": (LOG,)}
    assert list_files([Path("../run")]).names == {"../run/": (LOG,)}
    monkeypatch.chdir(tmp_path)
    assert list_files([Path()]).names == {"": (LOG,), "run/": (LOG,)}


def test_files_are_named_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a file was given in two forms, its name is the one that sorts last."""
    make(tmp_path / LOG, tmp_path / "run" / LOG)
    monkeypatch.chdir(tmp_path)
    listing = list_files([Path(), tmp_path / "run"])
    assert listing.as_given([str(tmp_path / LOG), "/elsewhere"]) == {str(tmp_path / LOG): LOG}
    both = max(Path("run") / LOG, tmp_path / "run" / LOG)
    assert listing.as_given([str(tmp_path / "run" / LOG)]) == {str(tmp_path / "run" / LOG): str(both)}


def test_links_to_folders_are_not_followed_and_other_links_are_files(tmp_path: Path) -> None:
    make(tmp_path / "run" / LOG, tmp_path / "elsewhere" / LOG)
    (tmp_path / "run" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "run" / "loop").symlink_to("loop")
    links = [tmp_path / "run" / SECOND, tmp_path / "run" / "broker-2-0001-0001.jsonl"]
    links[0].symlink_to(tmp_path / "elsewhere" / LOG)
    links[1].symlink_to(tmp_path / "missing")
    assert list_files([tmp_path / "run"]).paths() == [tmp_path / "run" / LOG, *links]


def test_a_folder_named_as_a_log_is_a_file_that_cannot_be_read_if_there_are_others(tmp_path: Path) -> None:
    make(tmp_path / "run" / LOG / SECOND)
    assert list_files([tmp_path]).paths() == [tmp_path / "run" / LOG / SECOND]
    make(tmp_path / "run" / "notes.txt")
    assert list_files([tmp_path]).paths() == [tmp_path / "run" / LOG, tmp_path / "run" / LOG / SECOND]


def test_listings_are_merged(tmp_path: Path) -> None:
    make(tmp_path / LOG, tmp_path / SECOND)
    bare = list_files([tmp_path / "missing"])
    merged = LogListing.merged([list_files([tmp_path / LOG]), bare, list_files([tmp_path / SECOND, tmp_path / LOG])])
    assert (merged.paths(), merged.findings) == ([tmp_path / LOG, tmp_path / SECOND], bare.findings)


def test_the_names_of_many_files_take_little_memory(tmp_path: Path) -> None:
    """The driver of a Spark job has them: a `Path` for each and the path as a string were 700 bytes."""
    runs, nodes = 200, 14
    for run in range(runs):
        make(*(tmp_path / f"{run}" / f"broker-{node}-0001-0001.jsonl" for node in range(nodes)))
        logs = Logs(f"run-{run}")
        logs.at(1.0, "broker-1", StepReached(step="begin"))
        (lines,) = logs.lines.values()
        for file in (tmp_path / f"{run}").iterdir():
            file.write_bytes(b"".join(lines))
    find_logs([tmp_path / "0"])
    tracemalloc.start()
    try:
        found = find_logs([tmp_path])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(found.groups), found.listing.count) == (runs, runs * nodes)
    assert peak / found.listing.count < 100, "bytes a file"
