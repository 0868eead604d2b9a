"""Rows of event logs: every line is one row with its flaws, however the files are split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.foundation.eventlog.stories import LONG_LINE_PARTITIONS, RandomRun, killed_controller, long_line
from tests.understudy.history.lake.damaged_logs import write, write_damaged
from understudy.history.lake import log_rows
from understudy.history.lake.log_rows import BadSource, FileRange, log_row_schema, read_ranges
from understudy.history.reading import findings, reader


def rows(folder: Path, *, piece: int = 10**9, types: tuple[str, ...] | None = None) -> list[dict[str, Any]]:
    """Read all files of a folder, in pieces of `piece` bytes."""
    found = []
    for file in sorted(folder.iterdir()):
        size = file.stat().st_size
        for begin in range(0, max(size, 1), piece):
            part = FileRange(str(file), begin, min(begin + piece, size))
            for batch in read_ranges([part], types, is_stream=False):
                assert batch.schema == log_row_schema(types)
                found += batch.to_pylist()
    return found


def test_every_line_is_a_row_with_its_place(tmp_path: Path) -> None:
    found = rows(write_damaged(tmp_path))
    for file in tmp_path.iterdir():
        text = file.read_bytes()
        begins = [0, *(place + 1 for place, byte in enumerate(text) if byte == 10 and place + 1 < len(text))]
        assert [row["offset"] for row in found if row["file"] == str(file)] == begins
    whole = [row for row in found if row["data"] is not None and not row["flaws"]]
    for row in whole:
        line = Path(row["file"]).read_bytes()[row["offset"] :].split(b"\n")[0]
        expected = msgspec.json.decode(line)
        expected["data"] = msgspec.json.encode(expected["data"]).decode()
        assert {name: row[name] for name in expected if name in row} == {
            name: expected[name] for name in expected if name in row
        }
    assert len(whole) > 20


def test_the_flaws_are_those_that_the_reader_finds(tmp_path: Path) -> None:
    found = rows(write_damaged(tmp_path), types=("RequestSent", "EventStarted"))
    flaws = {flaw.partition(":")[0] for row in found for flaw in row["flaws"]}
    assert flaws == {finding.kind for finding in reader.read([tmp_path]).findings}
    torn = [Path(row["file"]).name for row in found if findings.TORN_LINE in row["flaws"]]
    assert torn == ["broker-2-0001-0001.jsonl", "broker-3-0010-0001.jsonl"]
    (empty,) = [row for row in found if row["flaws"] == [findings.EMPTY_FILE]]
    assert empty["file"].endswith("broker-3-0009-0001.jsonl")


@pytest.mark.parametrize("piece", [1, 7, 100, 1000, 4096])
def test_a_file_that_is_split_has_the_same_rows(tmp_path: Path, piece: int) -> None:
    folder = write_damaged(tmp_path)
    log = folder / "broker-2-0001-0001.jsonl"
    shortened = log.read_bytes().replace(b'{"a":' * 5000, b'{"a":' * 50)
    for file in folder.iterdir():
        if file != log:
            file.unlink()
    log.write_bytes(shortened)
    assert rows(folder, piece=piece) == rows(folder)


def test_an_incarnation_continues_in_its_next_file(tmp_path: Path) -> None:
    folder = write(RandomRun(7, records=300).logs, tmp_path)
    log = max(folder.iterdir(), key=lambda each: each.stat().st_size)
    lines = log.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    log.write_bytes(b"".join(lines[:middle]))
    rest = log.with_name(log.name.replace("-0001.jsonl", "-0002.jsonl"))
    rest.write_bytes(b"".join(lines[middle:]))
    assert not any(row["flaws"] for row in rows(folder))
    rest.write_bytes(b"".join(lines[middle + 1 :]))
    assert [row["flaws"] for row in rows(folder) if row["flaws"]] == [[findings.GAP]]


def test_only_the_wanted_types_are_rows(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    expected = [
        record for record in reader.read([folder]).records if record.type in ("FaultInjected", "ControllerElected")
    ]
    found = rows(folder, types=("FaultInjected", "ControllerElected"))
    assert sorted((row["node"], row["seq"]) for row in found) == sorted((r.node, r.seq) for r in expected)
    assert {row["type"] for row in found} == {"FaultInjected", "ControllerElected"}
    for row in found:
        assert (row["FaultInjected"] is not None) == (row["type"] == "FaultInjected")
        assert (row["ControllerElected"] is not None) == (row["type"] == "ControllerElected")
    assert [row["FaultInjected"]["fault"] for row in found if row["FaultInjected"]][:1] == ["kill"]


def test_a_number_of_more_than_64_bits_is_a_flaw_of_its_line_alone(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    log = folder / "broker-1-0001-0001.jsonl"
    whole = rows(folder)
    log.write_bytes(log.read_bytes().replace(b'"zxid":0', b'"zxid":' + str(2**63).encode(), 1))
    found = rows(folder)
    assert len(found) == len(whole)
    assert [row["flaws"] for row in found if row["flaws"]] == [["not a record: a number of more than 64 bits"]]


def test_data_that_is_not_utf8_is_a_flaw(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    log = folder / "broker-1-0001-0001.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"data":{', b'"data":{"more":"\xff",', 1))
    (flawed,) = [row for row in rows(folder) if row["flaws"]]
    assert (flawed["data"], flawed["flaws"]) == (None, ["not a record: ProcessStarted"])


@pytest.mark.parametrize("piece", [10**9, 3_000_000])
def test_a_line_of_ten_megabytes_is_one_row(tmp_path: Path, piece: int) -> None:
    folder = write(long_line(), tmp_path)
    found = rows(folder, piece=piece)
    assert [(row["seq"], row["flaws"]) for row in found] == [(1, []), (2, []), (3, [])]
    assert len(found[1]["data"]) > 10_000_000
    (written,) = rows(folder, piece=piece, types=("LeadershipWritten",))
    assert len(written["LeadershipWritten"]["partitions"]) == LONG_LINE_PARTITIONS


def test_a_long_line_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(killed_controller(), tmp_path)
    log = folder / "broker-1-0001-0001.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(log_rows, "MAX_LINE_BYTES", 200_000)
    monkeypatch.setattr("understudy.history.reading.lines.MAX_LINE_BYTES", 200_000)
    long = b"x" * (300_000) + b"\n"
    log.write_bytes(b"".join([*lines[:2], long, *lines[2:]]))
    for piece in (10**9, 1000):
        found = [row for row in rows(folder, piece=piece) if row["file"] == str(log)]
        assert len(found) == len(lines) + 1
        assert [row["flaws"] for row in found if row["flaws"]] == [
            [f"{findings.LINE_TOO_LONG}: more than 200000 bytes"]
        ]


def test_a_file_that_cannot_be_read_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    part = FileRange(str(tmp_path / "broker-1-0001-0001.jsonl"), 0, 10)
    (batch,) = read_ranges([part], None, is_stream=False)
    assert batch.to_pylist()[0]["flaws"] == ["unreadable file: Permission denied"]
    with pytest.raises(PermissionError):
        list(read_ranges([part], None, is_stream=True))


def test_a_file_that_a_worker_does_not_see_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="every worker sees"):
        list(read_ranges([FileRange(str(tmp_path / "broker-1-0001-0001.jsonl"), 0, 10)], None, is_stream=False))


def test_a_clock_that_goes_back_is_a_flaw_of_the_line_where_it_does(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path)
    log = folder / "broker-1-0001-0001.jsonl"
    whole = rows(folder)
    text = log.read_bytes()
    assert b'"mono_ms":1210,' in text
    log.write_bytes(text.replace(b'"mono_ms":1210,', b'"mono_ms":9210,'))
    flawed = [row for row in rows(folder) if row["flaws"]]
    assert [(row["flaws"], row["mono_ms"]) for row in flawed] == [([findings.CLOCK_WENT_BACK], 1215.0)]
    assert len(rows(folder)) == len(whole)
