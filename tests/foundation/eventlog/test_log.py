"""`EventLog` numbers records without gaps, and reports a record that could not be written."""

from __future__ import annotations

import msgspec
import pytest

from tests.brokers.parts import StillClock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import StepReached


def test_a_record_that_cannot_be_written_is_reported_and_its_number_is_used_by_the_next() -> None:
    lines: list[bytes] = []
    full = False

    def write(line: bytes) -> None:
        if full:
            raise OSError(28, "No space left on device")
        lines.append(line)

    events = EventLog(run="test", node="broker-1", incarnation=1, clock=StillClock(), write=write)
    lost_records: list[OSError] = []
    events.when_lost = lost_records.append
    assert events.append(StepReached(step="one")) == 1
    full = True
    with pytest.raises(OSError, match="No space left") as lost:
        events.append(StepReached(step="lost"))
    assert lost_records == [lost.value]
    full = False
    assert events.append(StepReached(step="two")) == 2
    assert [msgspec.json.decode(line)["seq"] for line in lines] == [1, 2]
