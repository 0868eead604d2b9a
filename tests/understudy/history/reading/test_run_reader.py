"""The fast reader gives the metrics what the tolerant one gives, and refuses logs with more than torn last lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import LONG_LINE_PARTITIONS, RandomRun, killed_controller, long_line
from understudy.history.metrics.metrics import measure, measure_records
from understudy.history.reading import state_records
from understudy.history.reading.lines import MAX_LINE_BYTES, decode_record
from understudy.history.reading.reader import GAP, LINE_TOO_LONG, TORN_LINE, LogFinding, read
from understudy.history.reading.run_reader import NotClean, read_clean_run


def write(logs: Logs, folder: Path) -> list[Path]:
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return sorted(folder.iterdir())


@pytest.mark.parametrize("large_bytes", [state_records.LARGE_BYTES, 0], ids=["kept", "decoded-again"])
@pytest.mark.parametrize("seed", range(8))
def test_both_readers_give_the_same_metrics(
    seed: int, large_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_records, "LARGE_BYTES", large_bytes)
    files = write(RandomRun(seed, records=300).logs, tmp_path)
    clean, tolerant = read_clean_run(files), read(files)
    assert clean.lines == tolerant.lines
    assert measure_records(clean.run, clean.records) == measure(clean.run, tolerant.records)


def test_the_files_of_an_incarnation_continue_each_other(tmp_path: Path) -> None:
    files = write(killed_controller(), tmp_path)
    long = max(files, key=lambda file: file.stat().st_size)
    lines = long.read_bytes().splitlines(keepends=True)
    long.write_bytes(b"".join(lines[:5]))
    long.with_name(long.name.replace("-0001.jsonl", "-0002.jsonl")).write_bytes(b"".join(lines[5:]))
    files = sorted(tmp_path.iterdir())
    clean = read_clean_run(files)
    assert measure_records(clean.run, clean.records) == measure(clean.run, read(files).records)
    with pytest.raises(NotClean):
        read_clean_run([file for file in files if not file.name.endswith("-0002.jsonl")] + files[-1:])


def test_a_line_of_ten_megabytes_is_read(tmp_path: Path) -> None:
    (file,) = write(long_line(), tmp_path)
    clean, tolerant = read_clean_run([file]), read([file])
    assert (clean.lines, clean.findings, tolerant.findings) == (3, (), ())
    metrics = measure_records(clean.run, clean.records)
    assert metrics == measure(clean.run, tolerant.records)
    assert (metrics.totals.partitions, metrics.totals.clean_elections) == (LONG_LINE_PARTITIONS,) * 2


def test_a_torn_line_of_megabytes_is_found(tmp_path: Path) -> None:
    (file,) = write(long_line(), tmp_path)
    with file.open("r+b") as stream:
        stream.truncate(9_000_000)
    clean, tolerant = read_clean_run([file]), read([file])
    assert clean.findings == tolerant.findings == (LogFinding(str(file), 2, TORN_LINE, ""),)
    assert clean.lines == tolerant.lines == 2


def test_a_line_beyond_the_limit_is_left_to_the_tolerant_reader(tmp_path: Path) -> None:
    (file,) = write(long_line(), tmp_path)
    first, _, last = file.read_bytes().splitlines(keepends=True)
    too_long = changed(first, seq=2, data={"step": "x" * MAX_LINE_BYTES})
    file.write_bytes(first + too_long + last)
    with pytest.raises(NotClean):
        read_clean_run([file])
    reading = read([file])
    assert [record.seq for record in reading.records] == [1, 3]
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


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_left_to_the_tolerant_reader(damage: str, tmp_path: Path) -> None:
    files = write(killed_controller(), tmp_path)
    log = tmp_path / "broker-2-0001-0001.jsonl"
    log.write_bytes(b"".join(DAMAGE[damage](log.read_bytes().splitlines(keepends=True))))
    with pytest.raises(NotClean):
        read_clean_run(files)


@pytest.mark.parametrize("lost", [1, 20, 200])
def test_a_torn_last_line_is_the_only_finding_of_the_fast_reader(lost: int, tmp_path: Path) -> None:
    files = write(RandomRun(5, records=200).logs, tmp_path)
    torn = [file for file in files if file.read_bytes().count(b"\n") > 2]
    for file in torn:
        file.write_bytes(file.read_bytes()[:-lost])
    clean, tolerant = read_clean_run(files), read(files)
    assert (clean.findings, clean.lines) == (tolerant.findings, tolerant.lines)
    assert len(clean.findings) == (len(torn) if lost > 1 else 0)
    assert measure_records(clean.run, clean.records) == measure(clean.run, tolerant.records)


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
                with pytest.raises(NotClean):
                    read_clean_run(files)
        file.write_bytes(b"".join(lines))
    assert len(seen) > 20


def test_a_large_record_that_is_damaged_is_found_when_it_is_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_records, "LARGE_BYTES", 0)
    files = write(killed_controller(), tmp_path)
    for file in files:
        file.write_bytes(file.read_bytes().replace(b'"why":"', b'"why":1,"_":"'))
    clean = read_clean_run(files)
    with pytest.raises(msgspec.MsgspecError):
        measure_records(clean.run, clean.records)


def test_a_missing_file_is_left_to_the_tolerant_reader(tmp_path: Path) -> None:
    with pytest.raises(NotClean):
        read_clean_run([tmp_path / "gone.jsonl"])
    with pytest.raises(NotClean):
        read_clean_run([])


@pytest.mark.parametrize("seed", range(20))
def test_what_the_fast_reader_accepts_has_no_findings(seed: int, tmp_path: Path) -> None:
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
    tolerant = read(files)
    try:
        clean = read_clean_run(files)
    except NotClean:
        return
    assert tolerant.findings == clean.findings
    assert measure_records(clean.run, clean.records) == measure(clean.run, tolerant.records)
