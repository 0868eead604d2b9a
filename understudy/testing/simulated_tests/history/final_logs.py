"""Reads the bytes of a partition's log into its records, and finds which attempt has appended each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from understudy.checks.client_history import DEFINITE_ERRORS
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.records.batch import BatchHeader, batches
from understudy.foundation.records.record import Record, records
from understudy.foundation.records.varint import Buffer
from understudy.testing.simulated_tests.history.wire_batches import sequenced
from understudy.testing.simulated_tests.history.wire_records import FinalLog, LogRecord, Sent

_COMMIT: Final = b"\0\0\0\1"
"""Key of a control record for a committed transaction: version 0, type 1."""


def read_final_log(
    data: Buffer, *, end: int, start: int = 0, is_compacted: bool = False, may_have_lost: str = ""
) -> FinalLog:
    """Return the records in the batches of a log, and which of them `read_committed` does not read.

    Args:
        data: whole batches, from the first that has a record at `start` or later.
        end: the offset after the last record that counts; later ones are left out.
        start, is_compacted, may_have_lost: as of `FinalLog`.

    Raises:
        CorruptRecord, InvalidRecord: a batch cannot be read.
    """
    found: list[LogRecord] = []
    undecided: dict[int, list[int]] = {}
    """The places in `found` of the records of transactions without an end, by producer id."""
    for batch in batches(data):
        header = batch.header
        if header.base_offset >= end:
            break
        if header.is_control:
            places = undecided.pop(header.producer_id, ())
            if any(record.key == _COMMIT for record in records(batch)):
                for place in places:
                    found[place] = found[place]._replace(is_aborted=False)
            continue
        for each in sequenced(batch):
            if start <= each.record.offset < end:
                if header.is_transactional:
                    undecided.setdefault(header.producer_id, []).append(len(found))
                found.append(_log_record(each.record, header, each.sequence))
    return FinalLog(tuple(found), start, is_compacted, may_have_lost, end)


def senders(log: FinalLog, sent: Sequence[Sent]) -> list[Sent | None]:
    """Return by which attempt each record of a log was appended; None for a record that none of them has sent.

    An attempt with a sequence number is found by it. Another one that was acknowledged has the offset in its answer;
    one that may have been appended without that has the first record that is left with the same key, value, headers
    and, unless it is the time of the append, timestamp.

    Args:
        sent: the attempts to send records to the partition, in their order.
    """
    by_sequence = {
        (each.producer_id, each.producer_epoch, each.sequence, _content(each)): each
        for each in sent
        if each.sequence >= 0
    }
    acknowledged = {(each.offset, _content(each)): each for each in sent if each.sequence < 0 and each.offset >= 0}
    free = {
        content: list(attempts)
        for content, attempts in grouped((_content(each), each) for each in sent if _may_be_anywhere(each)).items()
    }
    found: list[Sent | None] = []
    for record in log.records:
        content = _content(record)
        if record.sequence >= 0:
            found.append(by_sequence.get((record.producer_id, record.producer_epoch, record.sequence, content)))
            continue
        sender = acknowledged.get((record.offset, content))
        found.append(_take(free.get(content, []), record) if sender is None else sender)
    return found


def _take(attempts: list[Sent], record: LogRecord) -> Sent | None:
    """Take the first attempt that may have sent a record out of those with its content."""
    for number, each in enumerate(attempts):
        if record.has_log_append_time or each.timestamp == record.timestamp:
            return attempts.pop(number)
    return None


def _may_be_anywhere(sent: Sent) -> bool:
    """Whether an attempt without a sequence number may have been appended at an offset that no answer has named."""
    return sent.sequence < 0 and sent.offset < 0 and sent.error not in DEFINITE_ERRORS


def _content(record: Sent | LogRecord) -> tuple[object, ...]:
    return record.key, record.value, record.headers


def _log_record(record: Record, header: BatchHeader, sequence: int) -> LogRecord:
    return LogRecord(
        offset=record.offset,
        key=record.key,
        value=record.value,
        headers=record.headers,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        sequence=sequence,
        timestamp=record.timestamp,
        has_log_append_time=header.has_log_append_time,
        is_aborted=header.is_transactional,
    )
