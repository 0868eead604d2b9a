"""Texts about records, clients and times, for the messages of asserts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.foundation.records.record import Header
from understudy.foundation.times import moment
from understudy.testing.simulated_tests.history.wire_records import (
    NO_ANSWER,
    NO_ERROR,
    Commit,
    Delivered,
    FinalLog,
    LogRecord,
    Sent,
)

SHOWN: Final = 5
"""Maximum number of findings in a message."""
_SHOWN_BYTES: Final = 60


def listed(what: str, findings: Sequence[str]) -> str:
    """Return a message: what was found, with the number of all findings, and the first of them."""
    left = len(findings) - SHOWN
    lines = [f"{what} ({len(findings)} in all):", *(f"  - {each}" for each in findings[:SHOWN])]
    return "\n".join([*lines, f"  … and {left} more"] if left > 0 else lines)


def short(value: bytes | None) -> str:
    if value is None:
        return "null"
    return repr(value) if len(value) <= _SHOWN_BYTES else f"{value[:_SHOWN_BYTES]!r}… ({len(value)} bytes)"


def record(key: bytes | None, value: bytes | None, headers: tuple[Header, ...] = ()) -> str:
    """Return a record's content: its value, and its key and headers if it has some."""
    text = f"record {short(value)}"
    if key is not None:
        text += f" with key {short(key)}"
    return text + (f" and {len(headers)} headers" if headers else "")


def content(each: Sent | Delivered | LogRecord) -> str:
    return record(each.key, each.value, each.headers)


def attempt(sent: Sent) -> str:
    """Return which attempt it is, who made it, when, and with which outcome."""
    text = f"attempt {sent.attempt} of {sent.client} to {sent.broker} with acks={_acks(sent)} at {moment(sent.sent_ms)}"
    if sent.producer_id >= 0:
        text += f", producer id {sent.producer_id}, epoch {sent.producer_epoch}, sequence number {sent.sequence}"
    return f"{text}: {outcome(sent)}"


def outcome(sent: Sent | Commit) -> str:
    """Return how a request has ended."""
    if sent.ended_ms is None:
        return "without an answer"
    if sent.error == NO_ANSWER:
        return f"its connection ended at {moment(sent.ended_ms)}, without an answer"
    if isinstance(sent, Sent) and sent.is_acknowledged:
        offset = f" at offset {sent.offset}" if sent.offset >= 0 else f" by {sent.error}, without an offset"
        return f"acknowledged{offset} at {moment(sent.ended_ms)}"
    if sent.error == NO_ERROR:
        return f"acknowledged at {moment(sent.ended_ms)}"
    return f"answered with {sent.error} at {moment(sent.ended_ms)}"


def attempts(sent: Sequence[Sent]) -> str:
    return "; ".join(attempt(each) for each in sent)


def log_at(log: FinalLog, offset: int) -> str:
    """Return what a log has at an offset."""
    for each in log.records:
        if each.offset == offset:
            return f"offset {offset} has the {content(each)}"
    if not log.records:
        return "the log is empty"
    last = log.records[-1].offset
    return f"the log ends with offset {last}" if offset > last else f"the log has no record at offset {offset}"


def _acks(sent: Sent) -> str:
    return "all" if sent.acks < 0 else str(sent.acks)
