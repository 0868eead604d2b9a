"""Decides which records of a batch stay when its log is compacted, and writes the batch again. A plain function.

Mirrors the record filter of `Cleaner.cleanInto`, and `MemoryRecords.filterTo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from understudy.brokers.config.kafka_config import MAX_LONG
from understudy.brokers.log.cleaned_transactions import CleanedTransactions
from understudy.brokers.log.offset_map import OffsetMap
from understudy.brokers.log.producer_state import LastRecord
from understudy.foundation.records.batch import BatchHeader, RecordBatch
from understudy.foundation.records.compaction import StoredRecord, emptied, rebuilt, stored_records
from understudy.foundation.records.varint import Buffer


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What decides which records of a log stay.

    Attributes:
        newest: the newest offset of each key.
        last_records: where the log's producers have appended last, by producer id. Such a batch stays, perhaps without
            records: it has the last sequence number.
        now_ms: wall time at the beginning of the compaction.
        delete_retention_ms: how long tombstones and markers of empty transactions stay from then on.
    """

    newest: OffsetMap
    transactions: CleanedTransactions
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int


class RetainedBatch(NamedTuple):
    """A batch after compaction.

    Attributes:
        data: empty if nothing is left.
        read: how many records it had; 0 for one that was discarded without being read.
        kept: how many are left.
        without_key: how many had no key, and are removed.
    """

    data: Buffer
    read: int
    kept: int
    without_key: int = 0


def retained(batch: RecordBatch, retention: Retention) -> RetainedBatch:
    """Return a batch with the records that stay. Batches are to be given in the order of the log.

    Raises:
        CorruptRecord, InvalidRecord: its records cannot be read.
    """
    header = batch.header
    can_discard = retention.transactions.can_discard(batch)
    horizon = header.delete_horizon_ms
    # A marker goes only after its time, so that a consumer within its transaction still reads it.
    discards = can_discard and (not header.is_control or (horizon is not None and horizon <= retention.now_ms))
    stays_empty = header.has_producer_id and _is_last_of_producer(header, retention.last_records)
    if discards and not stays_empty:
        return RetainedBatch(b"", 0, 0)
    found = list(stored_records(batch))
    kept = [] if discards else found if header.is_control else [r for r in found if _stays(r, header, retention)]
    without_key = 0 if header.is_control else sum(record.key is None for record in found)
    if not kept:
        return RetainedBatch(emptied(header) if stays_empty else b"", len(found), 0, without_key)
    awaits_deletion = (can_discard and header.is_control) or any(not record.has_value for record in kept)
    new_horizon = retention.now_ms + retention.delete_retention_ms
    if awaits_deletion and horizon is None and new_horizon <= MAX_LONG:
        horizon = new_horizon
    elif len(kept) == len(found):
        return RetainedBatch(batch.data, len(found), len(found), without_key)
    return RetainedBatch(rebuilt(header, kept, horizon), len(found), len(kept), without_key)


def _is_last_of_producer(header: BatchHeader, last_records: Mapping[int, LastRecord]) -> bool:
    last = last_records.get(header.producer_id)
    if last is None:
        return False
    if last.offset is not None:
        return header.last_offset == last.offset
    # After a marker alone the epoch is what has to stay.
    return header.is_control and header.producer_epoch == last.producer_epoch


def _stays(record: StoredRecord, header: BatchHeader, retention: Retention) -> bool:
    if record.offset > retention.newest.latest_offset:
        return True
    if record.key is None or record.offset < retention.newest.newest(record.key):
        return False
    horizon = header.delete_horizon_ms
    return record.has_value or horizon is None or retention.now_ms < horizon
