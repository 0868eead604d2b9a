"""Every released record type stays readable: one line per record type and version, as the release wrote it.

The lines in `samples/` are never edited. A new record type appends one. A field that was added later is missing from
earlier samples, so reading them tests its default. Whole logs of a release are in `tests/samples`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.understudy.page.folding.fold import fold_all
from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE, RECORD_VERSION
from understudy.history.metrics.metrics import measure
from understudy.history.reading.lines import decode_record
from understudy.history.reading.reader import read

SAMPLES = sorted(Path(__file__).with_name("samples").glob("version-*.jsonl"))
LINES = [line for path in SAMPLES for line in path.read_bytes().splitlines()]


def test_every_version_and_type_has_a_sample() -> None:
    assert [path.name for path in SAMPLES] == [f"version-{version}.jsonl" for version in range(1, RECORD_VERSION + 1)]
    without = set(PAYLOAD_BY_TYPE) - {msgspec.json.decode(line)["type"] for line in LINES}
    assert without == set(), f"append a line of each to {SAMPLES[-1].name}, with every field set"


@pytest.mark.parametrize("line", LINES, ids=[msgspec.json.decode(line)["type"] for line in LINES])
def test_a_sample_keeps_its_fields_and_values(line: bytes) -> None:
    before = msgspec.json.decode(line)
    before["type"] = FORMER_TYPE_NAMES.get(before["type"], before["type"])
    now = msgspec.json.decode(msgspec.json.encode(decode_record(line)))
    assert {name: now["data"][name] for name in before["data"]} == before["data"]
    assert {name: value for name, value in now.items() if name != "data"} == {
        name: value for name, value in before.items() if name != "data"
    }


def test_samples_are_read_measured_and_folded() -> None:
    reading = read(SAMPLES)
    assert reading.findings == ()
    assert len(reading.records) == len(LINES)
    assert measure("samples", reading.records).totals.records == len(LINES)
    assert fold_all(reading.records).records == len(LINES)
