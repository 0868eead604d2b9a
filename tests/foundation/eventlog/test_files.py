"""Event-log files: their names, incarnations and rolling, and their content on disk when `write` returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.foundation.eventlog.files import JsonLinesFiles, log_files


def test_the_first_incarnation_is_one_and_its_file_carries_the_name(tmp_path: Path) -> None:
    files = JsonLinesFiles(tmp_path / "deep" / "events", "broker-1")
    files.write(b"a\n")
    assert files.incarnation == 1
    assert files.path.name == "broker-1-0001-0001.jsonl"
    assert files.path.read_bytes() == b"a\n", "the operating system has the line before anything is closed"


def test_every_start_is_a_new_incarnation_per_node(tmp_path: Path) -> None:
    assert [JsonLinesFiles(tmp_path, "broker-1").incarnation for _ in range(3)] == [1, 2, 3]
    assert JsonLinesFiles(tmp_path, "broker-11").incarnation == 1
    (tmp_path / "broker-2-0007-0003.jsonl").touch()
    assert JsonLinesFiles(tmp_path, "broker-2").incarnation == 8


def test_a_full_file_rolls_and_a_line_longer_than_the_limit_is_written(tmp_path: Path) -> None:
    files = JsonLinesFiles(tmp_path, "testbed", max_file_bytes=10)
    for line in (b"12345\n", b"123\n", b"1\n", b"a line longer than ten bytes\n", b"2\n"):
        files.write(line)
    files.close()
    contents = [found.path.read_bytes() for found in log_files(tmp_path)]
    assert contents == [b"12345\n123\n", b"1\n", b"a line longer than ten bytes\n", b"2\n"]
    assert [found.file for found in log_files(tmp_path)] == [1, 2, 3, 4]


def test_log_files_are_found_in_order_and_other_files_are_ignored(tmp_path: Path) -> None:
    for name in (
        "broker-2-0001-0001.jsonl",
        "broker-1-0002-0001.jsonl",
        "broker-1-0001-0002.jsonl",
        "notes.jsonl",
        "broker.log",
    ):
        (tmp_path / name).touch()
    found = [(file.node, file.incarnation, file.file) for file in log_files(tmp_path)]
    assert found == [("broker-1", 1, 2), ("broker-1", 2, 1), ("broker-2", 1, 1)]


@pytest.mark.parametrize("node", ["", "a/b", "broker 1", "x" * 201])
def test_a_node_name_that_cannot_be_a_file_name_is_refused(tmp_path: Path, node: str) -> None:
    with pytest.raises(ValueError, match="cannot name an event-log file"):
        JsonLinesFiles(tmp_path, node)


def test_after_a_failed_write_the_next_line_starts_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = JsonLinesFiles(tmp_path, "broker-1")
    files.write(b"whole\n")
    with monkeypatch.context() as patch:

        def disk_full(descriptor: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        patch.setattr("os.write", disk_full)
        with pytest.raises(OSError, match=r"No space left on device: '.*broker-1-0001-0001\.jsonl'"):
            files.write(b"lost\n")
    files.write(b"after\n")
    assert [found.path.read_bytes() for found in log_files(tmp_path)] == [b"whole\n", b"after\n"]
