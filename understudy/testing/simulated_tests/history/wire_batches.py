"""Reads the records in Produce requests, Fetch answers and logs, of every message format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from understudy.clusters.clients.consumer import committed
from understudy.foundation.records.batch import (
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    RecordBatch,
    batches,
)
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.message_set import LegacyMessage, first_magic, messages, messages_in
from understudy.foundation.records.record import MAX_DECOMPRESSED_BYTES, Record, records
from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.messages.fetch import AbortedTransaction

_LAST_SEQUENCE: Final = 0x7FFFFFFF


class SequencedRecord(NamedTuple):
    """A record with what its batch says of its producer; -1 without a producer id."""

    record: Record
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE


def sequenced(batch: RecordBatch) -> Iterator[SequencedRecord]:
    """Yield the records of a batch.

    Raises:
        CorruptRecord, InvalidRecord: they cannot be read.
    """
    header = batch.header
    for record in records(batch):
        yield SequencedRecord(record, header.producer_id, header.producer_epoch, _sequence_of(header, record.offset))


def sent_records(data: Buffer) -> list[SequencedRecord]:
    """Return the records of one partition in a Produce request, with the offsets 0, 1, 2 ….

    Raises:
        CorruptRecord, InvalidRecord: they cannot be read.
    """
    if first_magic(data) == MAGIC:
        found = [each for batch in batches(data) for each in sequenced(batch)]
    else:
        found = [SequencedRecord(record) for record in _legacy_records(data)]
    return [each._replace(record=each.record._replace(offset=place)) for place, each in enumerate(found)]


def delivered_records(data: Buffer, offset: int, aborted: Sequence[AbortedTransaction]) -> list[SequencedRecord]:
    """Return the records of one partition in a Fetch answer that a consumer returns.

    Args:
        offset: the offset that was requested; earlier records are left out.
        aborted: the aborted transactions in the answer, whose records are left out; empty with `read_uncommitted`.

    Raises:
        CorruptRecord, InvalidRecord: they cannot be read.
    """
    if first_magic(data) in (MAGIC, None):
        read = (batch for batch, is_read in committed(batches(data), aborted) if is_read)
        found = [each for batch in read for each in sequenced(batch)]
    else:
        found = [SequencedRecord(record) for record in _legacy_records(data)]
    return [each for each in found if each.record.offset >= offset]


def _sequence_of(header: BatchHeader, offset: int) -> int:
    # A batch without a producer id may have a sequence number: aiokafka writes 0.
    if not header.has_producer_id or header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return (header.base_sequence + offset - header.base_offset) & _LAST_SEQUENCE


def _legacy_records(data: Buffer) -> Iterator[Record]:
    for message in messages(data):
        if message.compression is Compression.NONE:
            yield Record(message.offset, message.timestamp, message.key, message.value)
        else:
            yield from _compressed_messages(message)


def _compressed_messages(wrapper: LegacyMessage) -> Iterator[Record]:
    """Yield the messages in a compressed one, whose offset in format 1 is the offset of the last of them."""
    inner = messages_in(wrapper, MAX_DECOMPRESSED_BYTES)
    base = wrapper.offset - inner[-1].offset if wrapper.magic else 0
    for message in inner:
        yield Record(base + message.offset, message.timestamp, message.key, message.value)
