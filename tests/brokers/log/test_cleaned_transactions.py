"""Tests of which batches of transactions compaction removes, and when their markers go."""

from __future__ import annotations

from collections.abc import Iterable

from tests.brokers.log.parts import NOW_MS
from understudy.brokers.log.batch_retention import Retention, retained
from understudy.brokers.log.cleaned_transactions import AbortedTransactions, AbortedTxn, CleanedTransactions
from understudy.brokers.log.offset_map import OffsetMap
from understudy.brokers.log.producer_state import LastRecord
from understudy.foundation.records.batch import RecordBatch, batches
from understudy.foundation.records.record import Record, encode_records, records

ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"
RETENTION_MS = 1_000


def data(offset: int, producer_id: int, *keys: bytes, sequence: int = 0, value: bytes | None = b"v") -> RecordBatch:
    encoded = encode_records(
        [Record(offset + place, NOW_MS, key, value) for place, key in enumerate(keys)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
    )
    return next(batches(encoded))


def marker(offset: int, producer_id: int, key: bytes) -> RecordBatch:
    encoded = encode_records(
        [Record(offset, NOW_MS, key, b"\0\0\0\0\0\1")],
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )
    return next(batches(encoded))


LOG = [
    data(0, 7, b"a", b"b"),
    data(2, 8, b"a"),
    marker(3, 7, ABORT),
    data(4, 7, b"c"),
    marker(5, 8, COMMIT),
    marker(6, 7, COMMIT),
]


def aborted(log: Iterable[RecordBatch]) -> AbortedTransactions:
    found = AbortedTransactions()
    for batch in log:
        found.read(batch)
    return found


def compacted(
    log: Iterable[RecordBatch], now_ms: int = NOW_MS, last_records: dict[int, LastRecord] | None = None
) -> list[RecordBatch]:
    log = list(log)
    newest = OffsetMap(100_000, 0.9)
    mapping = CleanedTransactions(aborted(log).found())
    for batch in log:
        if not mapping.can_discard(batch) and not batch.header.is_control:
            for record in records(batch):
                newest.put(record.key or b"", record.offset)
    newest.latest_offset = 100
    retention = Retention(
        newest=newest,
        transactions=CleanedTransactions(aborted(log).found()),
        last_records=last_records or {},
        now_ms=now_ms,
        delete_retention_ms=RETENTION_MS,
    )
    left = [retained(batch, retention).data for batch in log]
    return list(batches(b"".join(left)))


def test_aborted_transactions_are_found_by_their_markers() -> None:
    assert aborted(LOG).found() == [AbortedTxn(0, 7, 3)]
    assert aborted(LOG).found(ending_from=4) == []
    assert aborted(LOG[:2]).found() == [], "it is open"


def test_records_of_an_aborted_transaction_go_and_do_not_replace_others() -> None:
    left = compacted(LOG)
    assert [batch.header.base_offset for batch in left] == [2, 3, 4, 5, 6]
    assert [batch.header.has_delete_horizon for batch in left] == [False] * 5
    assert [record.offset for batch in left if not batch.header.is_control for record in records(batch)] == [2, 4]


def test_a_marker_goes_after_the_batches_of_its_transaction_and_after_its_time() -> None:
    second = compacted(compacted(LOG), NOW_MS + 10)
    assert [batch.header.base_offset for batch in second] == [2, 3, 4, 5, 6]
    horizons = {batch.header.base_offset: batch.header.delete_horizon_ms for batch in second}
    assert horizons == {2: None, 3: NOW_MS + 10 + RETENTION_MS, 4: None, 5: None, 6: None}
    third = compacted(second, NOW_MS + 9 + RETENTION_MS)
    assert [batch.header.base_offset for batch in third] == [2, 3, 4, 5, 6], "not before its time"
    fourth = compacted(second, NOW_MS + 10 + RETENTION_MS)
    assert [batch.header.base_offset for batch in fourth] == [2, 4, 5, 6]


def test_the_last_batch_of_an_aborted_producer_stays_without_records() -> None:
    log = [data(0, 7, b"a"), data(1, 7, b"b", sequence=1), marker(2, 7, ABORT)]
    left = compacted(log, last_records={7: LastRecord(1, 0)})
    assert [(batch.header.base_offset, batch.header.count) for batch in left] == [(1, 0), (2, 1)]
    assert left[0].header.last_sequence == 1
    again = compacted(left, NOW_MS + 5 * RETENTION_MS, {7: LastRecord(1, 0)})
    assert [(batch.header.base_offset, batch.header.count) for batch in again] == [(1, 0), (2, 1)]


def test_a_marker_stays_where_it_has_the_epoch_of_a_producer_alone() -> None:
    log = [marker(0, 7, ABORT), marker(1, 8, ABORT)]
    later = compacted(compacted(log), NOW_MS + 2 * RETENTION_MS, {7: LastRecord(None, 0)})
    assert [(batch.header.base_offset, batch.header.count) for batch in later] == [(0, 0)]


def test_tombstones_get_a_time_and_go_after_it() -> None:
    log = [data(0, 7, b"a", value=None), marker(1, 7, COMMIT)]
    first = compacted(log)
    assert first[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS
    assert compacted(first, NOW_MS + RETENTION_MS - 1)[0].header.delete_horizon_ms == NOW_MS + RETENTION_MS
    later = compacted(first, NOW_MS + RETENTION_MS)
    assert [batch.header.base_offset for batch in later] == [1]
