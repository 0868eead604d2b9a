"""However logs grow, the tables of `GrowingLogs` are those that a replay of the files computes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.history.reading.lines import LogRow, decode_header
from understudy.history.report.growing_logs import GrowingLogs
from understudy.history.report.replay import replay_in_python


def write(logs: Logs, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return folder


def rows(file: Path) -> Iterator[LogRow]:
    """Return the lines of a file without damage as rows."""
    offset = 0
    for line in file.read_bytes().splitlines(keepends=True):
        header = decode_header(line)
        yield LogRow(
            str(file),
            offset,
            [],
            header.run,
            header.node,
            header.incarnation,
            header.seq,
            header.mono_ms,
            header.wall_ms,
            header.type,
            header.cause,
            header.controller_epoch,
            bytes(header.data).decode(),
        )
        offset += len(line)


def assert_same(growing: GrowingLogs, folder: Path) -> None:
    expected = replace(replay_in_python([folder]), engine="here")
    assert growing.replay("here", whole=True, has_ended=True) == expected


@pytest.mark.parametrize("seed", range(12))
def test_tables_of_growing_logs_are_those_of_a_replay(seed: int, tmp_path: Path) -> None:
    """Lines of all files come in random portions; results in between do not change those at the end."""
    folder = write(RandomRun(seed, records=300).logs, tmp_path)
    chance = random.Random(seed)
    left = {file: list(rows(file)) for file in sorted(folder.iterdir())}
    growing = GrowingLogs([folder])
    while left:
        file = chance.choice(sorted(left))
        count = chance.randint(1, 40)
        growing.add(left[file][:count])
        left[file] = left[file][count:]
        if not left[file]:
            del left[file]
        if chance.random() < 0.2:
            found = growing.replay("here")
            assert sum(run.totals.records for run in found.runs) == growing.lines
    assert not growing.is_damaged
    assert_same(growing, folder)


def test_tables_in_between_are_those_of_the_lines_so_far(tmp_path: Path) -> None:
    whole = write(killed_controller(), tmp_path / "whole")
    part = tmp_path / "part"
    part.mkdir()
    growing = GrowingLogs([part])
    for file in sorted(whole.iterdir()):
        half = list(rows(file))[: len(file.read_bytes().splitlines()) // 2]
        (part / file.name).write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[: len(half)]))
        growing.add(row._replace(file=str(part / file.name)) for row in half)
    assert_same(growing, part)


def test_lines_that_come_again_are_left_out(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    growing = GrowingLogs([folder])
    for file in sorted(folder.iterdir()):
        everything = list(rows(file))
        growing.add(everything[:7])
        growing.add(everything[3:])
        growing.add(everything)
        assert growing.position(str(file)) == everything[-1].offset + 1
    assert not growing.is_damaged
    assert_same(growing, folder)


def test_a_file_that_comes_before_the_one_that_it_continues(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    first = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    lines = first.read_bytes().splitlines(keepends=True)
    first.write_bytes(b"".join(lines[:5]))
    second = first.with_name(first.name.replace("-0001.jsonl", "-0002.jsonl"))
    second.write_bytes(b"".join(lines[5:]))
    growing = GrowingLogs([folder])
    growing.add(row._replace(flaws=["gap"] if place == 0 else []) for place, row in enumerate(rows(second)))
    assert [growing.is_damaged] == [True], "numbers before those of the file are missing"
    for file in sorted({*folder.iterdir()} - {second}):
        growing.add(rows(file))
    assert [growing.is_damaged] == [False]
    assert_same(growing, folder)


def test_several_runs_in_one_folder(tmp_path: Path) -> None:
    growing = GrowingLogs([tmp_path])
    for number in range(3):
        folder = write(RandomRun(number, records=50, run=f"run-{number}").logs, tmp_path / f"{number}")
        for file in sorted(folder.iterdir()):
            growing.add(rows(file))
        assert_same(growing, tmp_path)
    assert not growing.is_damaged
    assert len(growing.replay("here").runs) == 3


def changed(row: LogRow, change: Callable[[LogRow], LogRow], file: Path) -> LogRow:
    """Change a row and its line in the file alike."""
    new = change(row)
    lines = file.read_bytes().splitlines(keepends=True)
    number = next(i for i in range(len(lines)) if sum(map(len, lines[:i])) == row.offset)
    header = msgspec.json.decode(lines[number])
    fields = {"run": new.run, "seq": new.seq, "mono_ms": new.mono_ms, "data": msgspec.json.decode(new.data)}
    lines[number] = msgspec.json.encode(header | fields) + b"\n"
    file.write_bytes(b"".join(lines))
    return new


DAMAGE: dict[str, Callable[[LogRow], LogRow]] = {
    "a number that is missing": lambda row: row._replace(seq=row.seq + 10_000),
    "a number that occurs again": lambda row: row._replace(seq=1),
    "a clock that went back": lambda row: row._replace(mono_ms=0.0),
    "a record of another run": lambda row: row._replace(run="stray"),
    "a payload of another type": lambda row: row._replace(data='{"what":[]}'),
    "a line with a flaw": lambda row: row._replace(data='{"what":[]}', flaws=["not a record: ZkWrite"]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_logs_have_the_tables_and_findings_of_a_replay(
    damage: Callable[[LogRow], LogRow], tmp_path: Path
) -> None:
    folder = write(killed_controller(), tmp_path)
    growing = GrowingLogs([folder])
    for file in sorted(folder.iterdir()):
        found = list(rows(file))
        if len(found) > 6:
            found[5] = changed(found[5], damage, file)
            found = [row._replace(offset=new.offset) for row, new in zip(found, rows_leniently(file), strict=True)]
        growing.add(found)
    assert growing.is_damaged
    assert_same(growing, folder)
    assert growing.replay("here").findings


def rows_leniently(file: Path) -> Iterator[LogRow]:
    """Return rows of which only the place counts."""
    offset = 0
    for line in file.read_bytes().splitlines(keepends=True):
        yield LogRow(str(file), offset, [], "", "", 0, 0, 0.0, 0.0, "", None, 0, "")
        offset += len(line)


@pytest.mark.parametrize("text", [b'{"version":1,"ru', b""], ids=["torn", "empty"])
def test_a_file_that_ends_torn_or_empty_is_a_finding_at_the_end_only(text: bytes, tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    growing = GrowingLogs([folder])
    for file in sorted(folder.iterdir()):
        growing.add(rows(file))
    (folder / "broker-7-0001-0001.jsonl").write_bytes(text)
    assert growing.replay("here").findings == ()
    assert_same(growing, folder)


def test_a_page_gets_no_more_partitions_than_it_shows(tmp_path: Path) -> None:
    folder = write(RandomRun(3, records=900).logs, tmp_path)
    growing = GrowingLogs([folder])
    for file in sorted(folder.iterdir()):
        growing.add(rows(file))
    (whole,), (shown,) = growing.replay("here", whole=True).runs, growing.replay("here").runs
    assert len(whole.partitions) > len(shown.partitions)
    assert whole.totals == shown.totals


def test_lines_out_of_order_are_a_finding_at_the_end(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    file = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3], lines[4] = lines[4], lines[3]
    file.write_bytes(b"".join(lines))
    growing = GrowingLogs([folder])
    for each in sorted(folder.iterdir()):
        growing.add(
            row._replace(flaws=["repeat"] if (each, place) == (file, 4) else []) for place, row in enumerate(rows(each))
        )
    assert_same(growing, folder)
    assert [finding.kind for finding in growing.replay("here", has_ended=True).findings] == ["lines out of order"]
