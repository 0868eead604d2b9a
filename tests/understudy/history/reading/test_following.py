"""The files of a folder are read as they grow, each line once."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.history.reading import following
from understudy.history.reading.following import FolderTail


def lines(tail: FolderTail) -> list[bytes]:
    return [line for _, line in tail.lines()]


def test_each_line_is_read_once_when_it_is_whole(tmp_path: Path) -> None:
    files, tail = JsonLinesFiles(tmp_path, "broker-1"), FolderTail(tmp_path)
    assert lines(tail) == []
    files.write(b"one\ntwo\nthr")
    assert lines(tail) == [b"one", b"two"]
    files.write(b"ee\n")
    assert lines(tail) == [b"three"]
    assert lines(tail) == []


def test_the_next_files_and_incarnations_follow(tmp_path: Path) -> None:
    first, tail = JsonLinesFiles(tmp_path, "broker-1", max_file_bytes=4), FolderTail(tmp_path)
    first.write(b"one\n")
    assert lines(tail) == [b"one"]
    first.write(b"two\n")
    first.write(b"torn")
    JsonLinesFiles(tmp_path, "broker-1").write(b"next\n")
    found = list(tail.lines())
    assert [(file.incarnation, file.file, line) for file, line in found] == [(1, 2, b"two"), (2, 1, b"next")]
    assert lines(tail) == []


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_a_line_at_which_a_reader_stops_is_read_again(tmp_path: Path, taken: int) -> None:
    files, tail = JsonLinesFiles(tmp_path, "broker-1"), FolderTail(tmp_path)
    files.write(b"one\ntwo\nthree\n")
    assert len(list(islice(tail.lines(), taken))) == taken
    assert lines(tail) == [b"one", b"two", b"three"][taken - 1 :]


def test_lines_are_longer_than_the_pieces_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PIECE", 5)
    files, tail = JsonLinesFiles(tmp_path, "broker-1"), FolderTail(tmp_path)
    files.write(b"a" * 23 + b"\n\nb\n" + b"c" * 11)
    assert lines(tail) == [b"a" * 23, b"", b"b"]
    files.write(b"d\n")
    assert lines(tail) == [b"c" * 11 + b"d"]


def test_a_line_that_is_too_long_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_PIECE", 5)
    monkeypatch.setattr(following, "MAX_LINE_BYTES", 20)
    files, tail = JsonLinesFiles(tmp_path, "broker-1"), FolderTail(tmp_path)
    files.write(b"a\n" + b"b" * 100)
    assert lines(tail) == [b"a"]


def more(tail: FolderTail, most_bytes: int) -> tuple[list[tuple[int, list[bytes]]], bool]:
    found, has_more = tail.more(most_bytes)
    return [(file.file, lines) for file, lines in found], has_more


def test_more_lines_come_in_pieces_with_their_files(tmp_path: Path) -> None:
    files, tail = JsonLinesFiles(tmp_path, "broker-1", max_file_bytes=12), FolderTail(tmp_path)
    for line in (b"one\n", b"two\n", b"six\n", b"a long line\n", b"z\n", b"torn"):
        files.write(line)
    assert more(tail, 9) == ([(1, [b"one", b"two"])], True)
    assert more(tail, 9) == ([(1, [b"six"]), (2, [b"a long line"])], True)
    assert more(tail, 9) == ([(3, [b"z"])], False)
    assert more(tail, 9) == ([], False)
    files.write(b" no\n")
    assert more(tail, 100) == ([(3, [b"torn no"])], False)


def test_a_piece_of_many_files_ends_with_one_of_them(tmp_path: Path) -> None:
    files, tail = JsonLinesFiles(tmp_path, "broker-1", max_file_bytes=4), FolderTail(tmp_path)
    for line in (b"one\n", b"two\n", b"six\n"):
        files.write(line)
    assert more(tail, 8) == ([(1, [b"one"]), (2, [b"two"])], True)
    assert more(tail, 8) == ([(3, [b"six"])], False)


def test_a_piece_has_no_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MAX_LINE_BYTES", 20)
    files, tail = JsonLinesFiles(tmp_path, "broker-1"), FolderTail(tmp_path)
    files.write(b"a\n" + b"b" * 100 + b"\nc\n")
    assert more(tail, 5) == ([(1, [b"a"])], True)
    assert more(tail, 5) == ([], False)
