"""The metrics read the same records of runs as `read`, with the same findings, whatever the damage.

What SQL reads of damaged logs is compared in `tests/understudy/spark/test_replay_job.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs, by_run
from tests.foundation.eventlog.stories import LONG_LINE_PARTITIONS, RandomRun, killed_controller, long_line
from understudy.history.metrics.metrics import measure, measure_records
from understudy.history.reading import run_builder
from understudy.history.reading.findings import GAP, LINE_TOO_LONG, NOT_A_RECORD, TORN_LINE, UNREADABLE_FILE, LogFinding
from understudy.history.reading.lines import MAX_LINE_BYTES, decode_record
from understudy.history.reading.reader import RunsReading, read, read_runs
from understudy.history.report.replay import read_and_measure
from understudy.history.report.runs import find_runs


def write(logs: Logs, folder: Path) -> list[Path]:
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return sorted(folder.iterdir())


def assert_same(files: list[Path]) -> RunsReading:
    """Compare tables, findings and lines with the ones from all records in memory; return the reading."""
    reading, records = read_runs(files), read(files)
    expected = {run: measure(run, found, records.sequences) for run, found in by_run(records.records).items()}
    assert {run: measure_records(run, found) for run, found in reading.runs.items()} == expected
    assert (reading.findings, reading.lines) == (records.findings, records.lines)
    return reading


@pytest.mark.parametrize("large_bytes", [run_builder.LARGE_BYTES, 0], ids=["kept", "decoded-again"])
@pytest.mark.parametrize("seed", range(8))
def test_both_ways_give_the_same_metrics(
    seed: int, large_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_builder, "LARGE_BYTES", large_bytes)
    assert assert_same(write(RandomRun(seed, records=300).logs, tmp_path)).findings == ()


def test_the_files_of_an_incarnation_continue_each_other(tmp_path: Path) -> None:
    files = write(killed_controller(), tmp_path)
    long = max(files, key=lambda file: file.stat().st_size)
    lines = long.read_bytes().splitlines(keepends=True)
    long.write_bytes(b"".join(lines[:5]))
    long.with_name(long.name.replace("-0001.jsonl", "-0002.jsonl")).write_bytes(b"".join(lines[5:]))
    files = sorted(tmp_path.iterdir())
    assert assert_same(files).findings == ()
    assert read_runs([file for file in files if not file.name.endswith("-0002.jsonl")] + files[-1:]).findings != ()


def test_a_line_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    (file,) = write(long_line(), tmp_path)
    reading = assert_same([file])
    assert (reading.lines, reading.findings) == (3, ())
    ((run, records),) = reading.runs.items()
    totals = measure_records(run, records).totals
    assert (totals.partitions, totals.clean_elections) == (LONG_LINE_PARTITIONS,) * 2


def test_a_torn_line_of_megabytes_is_found(tmp_path: Path) -> None:
    (file,) = write(long_line(), tmp_path)
    with file.open("r+b") as stream:
        stream.truncate(9_000_000)
    reading = assert_same([file])
    assert reading.findings == (LogFinding(str(file), 2, TORN_LINE, ""),)
    assert reading.lines == 2


def test_a_line_beyond_the_limit_is_a_finding(tmp_path: Path) -> None:
    (file,) = write(long_line(), tmp_path)
    first, _, last = file.read_bytes().splitlines(keepends=True)
    too_long = changed(first, seq=2, data={"step": "x" * MAX_LINE_BYTES})
    file.write_bytes(first + too_long + last)
    reading = assert_same([file])
    assert [record.seq for record in read([file]).records] == [1, 3]
    assert [finding.kind for finding in reading.findings] == [LINE_TOO_LONG, GAP]


def changed(line: bytes, **fields: object) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(line) | fields) + b"\n"


DAMAGE: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "torn before the last line": lambda lines: [*lines[:-2], lines[-2][:-20] + b"\n", lines[-1]],
    "nothing but a torn line": lambda lines: [lines[0][:-20]],
    "cut in the middle": lambda lines: [*lines[:3], lines[3][:-20] + b"\n", *lines[4:]],
    "an empty line": lambda lines: [*lines[:3], b"\n", *lines[3:]],
    "no UTF-8": lambda lines: [*lines[:3], lines[3].replace(b'"run"', b'"\xff"'), *lines[4:]],
    "nested too deep": lambda lines: [*lines[:3], b'{"a":' * 5_000 + b"\n", *lines[3:]],
    "a gap": lambda lines: [*lines[:3], *lines[4:]],
    "a repeat": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "out of order": lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]],
    "a later version": lambda lines: [*lines[:3], changed(lines[3], version=2), *lines[4:]],
    "an unknown type": lambda lines: [*lines[:3], changed(lines[3], type="Newer"), *lines[4:]],
    "another run": lambda lines: [*lines[:3], changed(lines[3], run="other"), *lines[4:]],
    "a clock that went back": lambda lines: [*lines[:3], changed(lines[3], mono_ms=0.5), *lines[4:]],
    "a clock before the first": lambda lines: [*lines, changed(lines[0], node="broker-9", mono_ms=0.5)],
    "a clock out of range": lambda lines: [*lines[:-1], changed(lines[-1], mono_ms=1e300)],
    "a wall clock out of range": lambda lines: [*lines[:-1], changed(lines[-1], wall_ms=-1.0)],
    "an incarnation of zero": lambda lines: [changed(line, incarnation=0) for line in lines],
    "empty": lambda lines: [],
}


WITHOUT_A_FINDING = ("another run", "a clock before the first", "out of order")


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_logs_have_the_records_and_findings_that_all_records_have(damage: str, tmp_path: Path) -> None:
    files = write(killed_controller(), tmp_path)
    log = tmp_path / "broker-2-0001-0001.jsonl"
    log.write_bytes(b"".join(DAMAGE[damage](log.read_bytes().splitlines(keepends=True))))
    assert assert_same(files).findings or damage in WITHOUT_A_FINDING


@pytest.mark.parametrize("lost", [1, 20, 200])
def test_a_torn_last_line_is_the_only_finding(lost: int, tmp_path: Path) -> None:
    files = write(RandomRun(5, records=200).logs, tmp_path)
    torn = [file for file in files if file.read_bytes().count(b"\n") > 2]
    for file in torn:
        file.write_bytes(file.read_bytes()[:-lost])
    found = assert_same(files).findings
    assert len(found) == (len(torn) if lost > 1 else 0)
    assert {finding.kind for finding in found} <= {TORN_LINE}


def test_a_payload_that_does_not_fit_its_type_is_damage_whatever_the_type(tmp_path: Path) -> None:
    files = write(RandomRun(3, records=200).logs, tmp_path)
    seen = set()
    for file in files:
        lines = file.read_bytes().splitlines(keepends=True)
        for number, line in enumerate(lines):
            kind = decode_record(line).type
            if kind not in seen:
                seen.add(kind)
                file.write_bytes(b"".join([*lines[:number], changed(line, data=[]), *lines[number + 1 :]]))
                damage = LogFinding(str(file), number + 1, NOT_A_RECORD, kind)
                assert assert_same(files).findings == (damage,)
        file.write_bytes(b"".join(lines))
    assert len(seen) > 20


def test_a_large_record_that_is_damaged_is_found_when_it_is_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_builder, "LARGE_BYTES", 0)
    files = write(killed_controller(), tmp_path)
    for file in files:
        file.write_bytes(file.read_bytes().replace(b'"why":"', b'"why":1,"_":"'))
    ((run, records),) = read_runs(files).runs.items()
    with pytest.raises(msgspec.MsgspecError):
        measure_records(run, records)
    measured, _ = read_and_measure(find_runs(files)[0])
    assert {finding.kind for finding in measured.findings} == {NOT_A_RECORD}
    assert measured.findings == read(files).findings


def test_a_missing_file_is_a_finding(tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    assert read_runs([gone]) == ({}, (LogFinding(str(gone), 0, UNREADABLE_FILE, "No such file or directory"),), 0)
    assert read_runs([]) == ({}, (), 0)


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_gives_the_same_records_and_findings(seed: int, tmp_path: Path) -> None:
    """Lines are removed, doubled, swapped or changed at random."""
    draw = random.Random(seed)
    files = write(RandomRun(seed, records=100).logs, tmp_path)
    file = draw.choice(files)
    lines = file.read_bytes().splitlines(keepends=True)
    at = draw.randrange(len(lines))
    byte = draw.randrange(len(lines[at]))
    lines[at : at + 1] = draw.choice(
        [
            [],
            [lines[at]] * 2,
            [lines[at]],
            [lines[at][:byte] + bytes([draw.randrange(256)]) + lines[at][byte + 1 :]],
        ]
    )
    file.write_bytes(b"".join(lines))
    assert_same(files)
