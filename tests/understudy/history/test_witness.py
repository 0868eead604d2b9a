"""The record, the partition and the link of what a problem of a run names."""

from __future__ import annotations

import msgspec
import pytest

from tests.understudy.checks.histories import envelope
from understudy.foundation.eventlog.records import Envelope, HighWatermarkChanged, StepReached
from understudy.history.witness import link_to_problem, partition_of

RAISED = HighWatermarkChanged(
    topic="eu-orders", topic_id="", partition=2, role="leader", leader_epoch=0, high_watermark=3, log_end_offset=5
)
RULE = "It should hold that …"


def _at(record: Envelope, seq: int, zxid: int) -> Envelope:
    return msgspec.structs.replace(record, seq=seq, zxid=zxid)


RECORDS = (
    _at(envelope(StepReached(step="load"), node="testbed"), 1, 0),
    _at(envelope(RAISED, node="broker-1"), 40, 17),
    _at(envelope(RAISED, node="broker-2"), 50, 18),
    _at(envelope(StepReached(step="end"), node="testbed"), 2, 0),
)


def _place(record: Envelope) -> str:
    return f"#at={record.node}.{record.incarnation}.{record.seq}"


@pytest.mark.parametrize(
    ("problem", "link"),
    [
        (
            f"R3 violated at broker-1/{RECORDS[1].incarnation}#40: eu-orders-2: broker 1 has … {RULE}",
            f"{_place(RECORDS[1])}&show=high-watermark:broker-1:eu-orders-2&show=replica:broker-1:eu-orders-2",
        ),
        (
            f"C3 violated at zxid 17: … {RULE}",
            f"{_place(RECORDS[1])}&show=high-watermark:broker-1:eu-orders-2&show=replica:broker-1:eu-orders-2",
        ),
        (f"H2 violated at send 3: eu-orders-2 has keys-2-206 at offset 8. {RULE}", "&show=isr:eu-orders-2"),
        (f"H2 violated at the end: broker-1 has none of gone-1. {RULE}", ""),
        ("Unsettled: seed 2, not settled within 30 s", ""),
    ],
)
def test_a_problem_is_shown_at_its_record_or_at_the_end(problem: str, link: str) -> None:
    found = link_to_problem(problem, RECORDS)
    assert found == (link if link.startswith("#") else f"{_place(RECORDS[-1])}{link}")


def test_a_run_without_records_has_no_link() -> None:
    assert link_to_problem("Unsettled: …", ()) == ""


@pytest.mark.parametrize(
    ("problem", "partition"),
    [
        ("C1 violated at broker-1/1#3: eu-orders-2 of broker-2", ("eu-orders", 2)),
        ("orders-2 is another topic's, and eu-orders-7 is not there", None),
    ],
)
def test_only_a_partition_of_the_run_counts(problem: str, partition: tuple[str, int] | None) -> None:
    assert partition_of(problem, RECORDS) == partition
