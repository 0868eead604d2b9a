"""The verdict on completeness, in the form in which the invariants need it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec import structs

from tests.understudy.checks.histories import envelope
from understudy.checks.missing import MissingStretch, RefutedBy
from understudy.foundation.eventlog.records import (
    Envelope,
    LogSeen,
    Payload,
    ProcessExiting,
    ProcessStarted,
    StillRunning,
    type_name,
)
from understudy.history.reading.completeness import UNREAD, judge_completeness
from understudy.history.reading.findings import (
    CLOCK_WENT_BACK,
    EMPTY_FILE,
    GAP,
    REPEAT,
    TORN_LINE,
    UNREADABLE_FILE,
    LogFinding,
)

STARTED = ProcessStarted(role="broker", boot="b")
EXITING = ProcessExiting(reason="stopped")


def log(node: str, *payloads: Payload, incarnation: int = 1, from_ms: float = 1_000.0) -> list[Envelope]:
    """Return the records of an incarnation, one in each millisecond."""
    return [
        structs.replace(
            envelope(payload, node=node),
            incarnation=incarnation,
            controller_epoch=0,
            seq=place,
            mono_ms=from_ms + place,
            type=type_name(payload),
        )
        for place, payload in enumerate(payloads, 1)
    ]


def test_a_run_whose_logs_end_in_order_is_complete() -> None:
    assert judge_completeness(log("broker-1", STARTED, EXITING)) == ((), (), ())


def test_an_end_that_no_other_record_attests_may_be_missing_and_does_not_make_the_run_incomplete() -> None:
    running = StillRunning(source="x")
    records = log("broker-1", STARTED, running)
    found = judge_completeness(records)
    assert found.stretches == (MissingStretch("broker-1", 1, 1_002.0, is_certain=False),)
    assert found.missing == ()
    assert found.evidence(has_znodes=True).refuting(RefutedBy.BROKERS, None) == (
        "records of broker-1 incarnation 1 may be missing"
    )
    seen = LogSeen(node="broker-1", incarnation=1, seq=2)
    testbed = log("testbed", structs.replace(STARTED, role="testbed"), seen, EXITING)
    assert judge_completeness([*records, *testbed]).stretches == ()
    following = log("broker-1", structs.replace(STARTED, after_seq=2), EXITING, incarnation=2, from_ms=2_000.0)
    assert judge_completeness([*records, *following]).stretches == ()


def test_a_missing_end_is_a_stretch_that_begins_at_the_last_record_by_the_clock_of_the_log() -> None:
    records = log("broker-1", STARTED, from_ms=5_000.0)
    testbed = log(
        "testbed", structs.replace(STARTED, role="testbed"), LogSeen(node="broker-1", incarnation=1, seq=9), EXITING
    )
    found = judge_completeness([*records, *testbed])
    assert found.stretches == (MissingStretch("broker-1", 1, 5_001.0),)
    (sentence,) = found.missing
    assert sentence.startswith("broker-1 incarnation 1, from 4.000 s to ")


def test_the_testbed_of_a_run_in_progress_has_written_no_end() -> None:
    testbed = log("testbed", structs.replace(STARTED, role="testbed"))
    assert judge_completeness(testbed).missing
    found = judge_completeness(testbed, is_running=True)
    assert found.missing == ()
    assert found.notes == ("testbed incarnation 1: the run has not ended",)


@pytest.mark.parametrize("kind", sorted(UNREAD))
def test_a_line_that_cannot_be_read_may_be_any_record_of_the_incarnation_of_its_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "broker-2-0003-0001.jsonl"
    path.touch()
    finding = LogFinding(str(path), 4, kind, "")
    found = judge_completeness(log("broker-1", STARTED, EXITING), [finding])
    assert found.stretches == (MissingStretch("broker-2", 3, -math.inf),)
    assert found.missing == (str(finding),)


def test_a_file_whose_name_names_no_node_may_be_of_any(tmp_path: Path) -> None:
    finding = LogFinding(str(tmp_path / "x"), 0, UNREADABLE_FILE, "")
    assert judge_completeness([], [finding]).stretches == (MissingStretch(),)


def test_what_a_kill_may_leave_is_a_note_and_a_gap_is_in_the_verdict_already() -> None:
    assert {TORN_LINE, EMPTY_FILE, CLOCK_WENT_BACK, GAP}.isdisjoint(UNREAD)
    assert REPEAT in UNREAD, "the record that is not used may be another one"
    findings = [LogFinding("a", 1, kind, "") for kind in (TORN_LINE, EMPTY_FILE, GAP)]
    found = judge_completeness(log("broker-1", STARTED, EXITING), findings)
    assert found == ((), (), (str(findings[0]), str(findings[1])))
