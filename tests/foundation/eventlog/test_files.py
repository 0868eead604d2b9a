"""Event-log files: their names, incarnations and rolling, and their content on disk when `write` returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.foundation.eventlog.files import JsonLinesFiles, last_record, log_files


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


# ------------------------------------------------------------------ the incarnation before


def line(seq: int, *, run: str = "run", filler: int = 0) -> bytes:
    text = f'{{"version":1,"run":"{run}","node":"broker-1","incarnation":1,"seq":{seq},"data":"{"x" * filler}"}}'
    return text.encode() + b"\n"


def after(folder: Path, *files: bytes, run: str = "run") -> int:
    """Return `after_seq` of the incarnation that follows one with these files."""
    for number, content in enumerate(files, start=1):
        (folder / f"broker-1-0001-{number:04d}.jsonl").write_bytes(content)
    return JsonLinesFiles(folder, "broker-1").after_seq(run)


def test_an_incarnation_finds_the_last_sequence_number_of_the_one_before(tmp_path: Path) -> None:
    assert after(tmp_path, line(1) + line(2), line(3) + line(4)) == 4
    (tmp_path / "broker-1-0002-0001.jsonl").write_bytes(line(9))
    assert JsonLinesFiles(tmp_path, "broker-1").after_seq("run") == 9
    assert JsonLinesFiles(tmp_path, "broker-1").after_seq("run") == 0, "the incarnation before has no record"
    assert JsonLinesFiles(tmp_path, "broker-11").after_seq("run") == 0, "there is none before"


def test_an_incarnation_of_another_run_is_none_of_this_run(tmp_path: Path) -> None:
    assert after(tmp_path, line(4), run="the next run") == 0


@pytest.mark.parametrize(
    "damage",
    [b'{"version":1,"run":"ru', b"\0" * 200_000, b"\n\n", b"\xff\xfe\n", b"[" * 100_000, b'{"seq":"7"}\n', line(9)[2:]],
    ids=["torn", "zeros", "empty", "not-utf-8", "nested", "no-number", "no-beginning"],
)
def test_the_last_line_that_can_be_read_counts_if_the_end_is_damaged(tmp_path: Path, damage: bytes) -> None:
    assert after(tmp_path, line(1) + line(2), line(3) + damage) == 3
    (tmp_path / "broker-1-0001-0002.jsonl").write_bytes(damage)
    (tmp_path / "broker-1-0002-0001.jsonl").unlink()
    assert JsonLinesFiles(tmp_path, "broker-1").after_seq("run") == 2, "in the file before"


@pytest.mark.parametrize("filler", [65_000, 66_000, 300_000])
def test_a_last_line_may_be_longer_than_what_is_read_first(tmp_path: Path, filler: int) -> None:
    assert after(tmp_path, line(1) + line(2, filler=filler)) == 2
    (found,) = [file for file in log_files(tmp_path) if file.incarnation == 1]
    last = last_record([found])
    assert last is not None
    assert (last.run, last.incarnation, last.seq) == ("run", 1, 2)


def test_an_incarnation_starts_if_the_files_of_the_one_before_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "broker-1-0001-0001.jsonl").mkdir()
    assert JsonLinesFiles(tmp_path, "broker-1").after_seq("run") == 0
