"""A line is a record, or it has a flaw with a name; two ways of decoding say the same of it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import RandomRun
from tests.understudy.history.lake.damaged_logs import write_damaged
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, ElectionLost, RequestSent, StepReached, type_name
from understudy.history.reading import findings, reader
from understudy.history.reading.lines import MAX_CLOCK_MS, MAX_SEQ, LineDecoder, decode_record


def written() -> list[bytes]:
    logs = Logs()
    logs.at(1000, "broker-1", StepReached(step="}\\n{"))
    logs.at(1001, "broker-1", ElectionLost(winner=2), cause=1)
    logs.at(1002, "broker-1", RequestSent(to=2, api="StopReplica", api_version=4, client_id="c", correlation_id=2**60))
    (lines,) = logs.lines.values()
    return [line.removesuffix(b"\n") for line in lines]


STEP = written()[0]


@pytest.mark.parametrize(
    "lines",
    [
        [b""],
        [STEP, b""],
        [STEP, b"torn"],
        [STEP + STEP],
        [STEP + b" " + STEP],
        # One value of two lines beside two values in one line: as many as there are lines.
        [STEP + b'{"x":[{}', b",{}]," + STEP[1:]],
        [STEP + STEP[:-1] + b',"x":[', b"]}"],
        [STEP.replace(b"StepReached", b"Unknown")],
        [STEP.replace(b'"version":1', b'"version":2')],
        [STEP.replace(b'"step":"', b'"step":7,"was":"')],
        [b"[" * 100_000],
        [STEP.replace(b"broker-1", b"broker-\xff")],
    ],
)
def test_a_line_that_is_no_record_is_an_error(lines: list[bytes]) -> None:
    with pytest.raises(msgspec.MsgspecError):
        list(map(decode_record, [*written(), *lines]))


@pytest.mark.parametrize(
    ("name", "largest", "beyond"),
    [
        ("seq", MAX_SEQ, MAX_SEQ + 1),
        ("seq", 1, 0),
        ("incarnation", MAX_SEQ, 10**30),
        ("mono_ms", MAX_CLOCK_MS, MAX_CLOCK_MS + 1),
        ("wall_ms", 0, -0.5),
    ],
)
def test_numbers_of_the_envelope_have_ranges(name: str, largest: float, beyond: float) -> None:
    record = json.loads(STEP)
    assert getattr(decode_record(json.dumps({**record, name: largest}).encode()), name) == largest
    with pytest.raises(msgspec.ValidationError):
        decode_record(json.dumps({**record, name: beyond}).encode())


SAMPLES = sorted((Path(__file__).parents[3] / "foundation" / "eventlog" / "samples").iterdir())


def test_every_line_is_decoded_as_by_the_reader(tmp_path: Path) -> None:
    """Each line is read alone, so that the reader's findings are about it and nothing else."""
    files = [*SAMPLES, *sorted(write_damaged(tmp_path).iterdir())]
    lines = [line for file in files for line in file.read_bytes().split(b"\n") if line]
    lines += [
        line.rstrip() for seed in range(5) for file in RandomRun(seed, records=200).logs.lines.values() for line in file
    ]
    every, none = LineDecoder(PAYLOAD_BY_TYPE), LineDecoder(())
    kinds = set()
    for line in lines:
        reading = reader.read_lines({"log": [line]})
        expected = {finding.kind for finding in reading.findings} - {findings.GAP}
        found = every.decode(line)
        kinds.add(found.flaw)
        if expected == {findings.TORN_LINE}:
            assert found == (None, "", findings.NOT_A_RECORD, "")
        else:
            assert {found.flaw} - {""} == expected, line
        if reading.records:
            (record,) = reading.records
            assert found.envelope.data == record.data
            assert found.type == type_name(record.data)
            assert all(
                getattr(found.envelope, name) == getattr(record, name)
                for name in record.__struct_fields__
                if name not in ("type", "data")
            )
            assert msgspec.json.decode(none.decode(line).envelope.data) is not None
        if found.envelope is not None and found.flaw != findings.NOT_A_RECORD:
            assert none.decode(line)[1:] == found[1:]
    assert kinds == {"", findings.NOT_A_RECORD, findings.UNKNOWN_TYPE, findings.UNKNOWN_VERSION}


def test_a_line_that_is_too_long_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.history.reading.lines.MAX_LINE_BYTES", 20)
    assert LineDecoder(()).decode(b"{" * 20).flaw == findings.NOT_A_RECORD
    assert LineDecoder(()).decode(b"{" * 21).flaw == findings.LINE_TOO_LONG
