"""Many lines are decoded together exactly where each of them is a record."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import ElectionLost, RequestSent, StepReached
from understudy.history.reading.lines import MAX_CLOCK_MS, MAX_SEQ, decode_record, decode_records


def written() -> list[bytes]:
    logs = Logs()
    logs.at(1000, "broker-1", StepReached(step="}\\n{"))
    logs.at(1001, "broker-1", ElectionLost(winner=2), cause=1)
    logs.at(1002, "broker-1", RequestSent(to=2, api="StopReplica", api_version=4, client_id="c", correlation_id=2**60))
    (lines,) = logs.lines.values()
    return [line.removesuffix(b"\n") for line in lines]


def test_records_decoded_together_are_those_decoded_one_by_one() -> None:
    lines = written()
    assert decode_records(lines) == [decode_record(line) for line in lines]


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
def test_a_line_that_is_no_record_is_an_error_for_all(lines: list[bytes]) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_records([*written(), *lines])


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
