"""Where the page of a run shows a problem."""

from __future__ import annotations

import msgspec
import pytest

from tests.understudy.checks.histories import envelope
from understudy.foundation.eventlog.records import (
    ClientRequestEnded,
    Envelope,
    LogTruncated,
    Payload,
    RecordsAcknowledged,
    StepReached,
)
from understudy.testing.simulated_tests.outcome import FailureKind, LostRecord, Problem
from understudy.testing.simulated_tests.report.evidence import line_about, link_of

RAISED = Problem(FailureKind.TEST, 7_000.0, "the test has raised AssertionError: " + 600 * "x")
ENDED = Problem(FailureKind.SERVICE, 5_000.0, "the service billing has ended with KeyError", place="billing: KeyError")
LOST = Problem(FailureKind.LOST, 9_000.0, "a record is lost", lost=LostRecord("orders", 0, 5))
VIOLATED = Problem(
    FailureKind.INVARIANT, 9_000.0, "the brokers have failed a check: R6 violated at broker-1/1#4: orders-0: …"
)
UNSETTLED = Problem(FailureKind.UNSETTLED, 3_500.0, "the cluster does not settle: orders-0 has no leader")


def _produced(partition: int) -> ClientRequestEnded:
    return ClientRequestEnded(
        api="Produce", client_id="shop", broker="broker-1", topic="orders", partition=partition, error="NONE", took_ms=1
    )


def _acknowledged(base_offset: int) -> RecordsAcknowledged:
    return RecordsAcknowledged(
        topic="orders", topic_id="", partition=0, leader_epoch=0, base_offset=base_offset, last_offset=base_offset + 3,
        acks=-1, isr=(1, 2),
    )  # fmt: skip


def _truncated(to_offset: int) -> LogTruncated:
    return LogTruncated(
        topic="orders", topic_id="", partition=0, leader_epoch=1, to_offset=to_offset, is_full=False, log_end_offset=8,
        high_watermark=8, epochs=(),
    )  # fmt: skip


def _run(*payloads: tuple[str, Payload]) -> list[Envelope]:
    """Return a record a second."""
    return [
        msgspec.structs.replace(envelope(payload, node=node), seq=second, mono_ms=1_000.0 * second)
        for second, (node, payload) in enumerate(payloads, 1)
    ]


RECORDS = _run(
    ("test", _produced(partition=1)),
    ("broker-1", _acknowledged(4)),
    ("broker-1", _acknowledged(0)),
    ("broker-1", _truncated(4)),
    ("billing", line_about(ENDED)),
    ("broker-2", _truncated(6)),
    ("test", line_about(RAISED)),
    ("testbed", StepReached(step="end")),
)


@pytest.mark.parametrize(
    ("problem", "link"),
    [
        (RAISED, "#at=test.1.7&show=client:test&show=isr:orders-1"),
        (ENDED, "#at=billing.1.5&show=client:billing"),
        (LOST, "#at=broker-1.1.4&show=replica:broker-1:orders-0&show=isr:orders-0"),
        (VIOLATED, "#at=broker-1.1.4&show=replica:broker-1:orders-0"),
        (UNSETTLED, "#at=broker-1.1.3&show=isr:orders-0"),
    ],
    ids=lambda value: value.kind.name if isinstance(value, Problem) else "",
)
def test_a_problem_is_shown_where_it_is_seen(problem: Problem, link: str) -> None:
    assert link_of(problem, RECORDS) == link


def test_a_lost_record_that_no_log_has_removed_is_shown_at_its_acknowledgement() -> None:
    records = [record for record in RECORDS if not isinstance(record.data, LogTruncated)]
    assert link_of(LOST, records).startswith("#at=broker-1.1.2&show=replica:broker-1:orders-0&")
    assert link_of(LOST, RECORDS[-1:]).endswith(".8")
