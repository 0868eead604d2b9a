"""Keeps what each producer has appended to one partition, so that its retries are not appended twice (KIP-98).

It has the last sequence number, the last five batches and the open transaction of each producer id. Nothing here reads
a disk or a clock: the log loads and saves it with `understudy.brokers.log.producer_snapshot`. Mirrors
`ProducerStateManager`, `ProducerStateEntry` and `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from struct import Struct
from typing import Final, NamedTuple

import msgspec

from understudy.brokers.log.producer_snapshot import NO_OFFSET, ProducerEntry
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, RecordBatch
from understudy.foundation.records.errors import InvalidRecord
from understudy.foundation.records.record import Record, records

BATCHES_TO_RETAIN: Final = 5
"""Number of batches of a producer that are remembered: a client may have as many requests in flight to one broker."""

NO_COORDINATOR_EPOCH: Final = -1

_MAX_SEQUENCE: Final = 2**31 - 1
_TRANSACTION_START_OFFSET: Final = attrgetter("transaction_start_offset")
_CONTROL_KEY: Final = Struct(">hh")
_END_MARKER: Final = Struct(">hi")
_ABORT, _COMMIT = 0, 1


class AppendedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch that a producer has appended. Mirrors `BatchMetadata`."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    """From the first to the last record."""
    timestamp: int
    """The largest of its records, in milliseconds since 1970."""

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class LastRecord(NamedTuple):
    """Where a producer has appended last.

    Attributes:
        offset: the offset of its last record; None if only the end of a transaction is known.
    """

    offset: int | None
    producer_epoch: int


class _Producer:
    """The state of one producer id. Mirrors `ProducerStateEntry`."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_start_offset")

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_start_offset = NO_OFFSET
        self.batches: tuple[AppendedBatch, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def set_epoch(self, epoch: int) -> None:
        """Enter an epoch; the batches of another one are forgotten, because sequences begin again."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = ()

    def add(self, header: BatchHeader) -> None:
        self.set_epoch(header.producer_epoch)
        batch = AppendedBatch(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        self.batches = (*self.batches[1 - BATCHES_TO_RETAIN :], batch)
        self.last_timestamp = header.max_timestamp


class ProducerStateManager:
    """The producers of one partition.

    It grows with the number of producer ids that have appended within `producer.id.expiration.ms`, as in Kafka. While
    there are none it has no dictionaries, because most of 100,000 partitions are idle.

    Args:
        partition: for the messages of errors.
        entries: what a snapshot has. Of each producer that is the last batch alone, so that an older retry is refused
            as out of order after a restart. `remove_expired` removes those that have expired since.
        end_offset: the offset up to which batches are reflected; the offset of the snapshot. `mapEndOffset` in Kafka.
        expiration_ms: `producer.id.expiration.ms`: how long a producer without a transaction is remembered.
    """

    __slots__ = ("_ongoing", "_producers", "_unreplicated", "end_offset", "expiration_ms", "partition")

    def __init__(
        self,
        entries: Iterable[ProducerEntry] = (),
        *,
        partition: TopicPartition,
        end_offset: int = 0,
        expiration_ms: int,
    ) -> None:
        self.partition = partition
        self.end_offset = end_offset
        self.expiration_ms = expiration_ms
        self._producers: dict[int, _Producer] | None = None
        # First offsets of the open transactions, ascending.
        self._ongoing: dict[int, None] | None = None
        # First offset → offset of the marker, of transactions that ended above the high watermark.
        self._unreplicated: dict[int, int] | None = None
        # In this order transactions are opened as they were in the log.
        for entry in sorted(entries, key=_TRANSACTION_START_OFFSET):
            self._load(entry)

    # -------------------------------------------------------------- appends

    def duplicate_of(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the batch that was appended when a client has sent this one before; None if it is new.

        Only the last five batches of the producer are compared. A retry is answered with the offsets and the timestamp
        of the batch that is there.
        """
        producer = self._find(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        for batch in producer.batches:
            if batch.last_sequence == header.last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def check(self, header: BatchHeader) -> None:
        """Check epoch and sequence of a batch that a client sends to the leader, before it gets its offsets.

        A producer that is unknown, because it is new or has expired, may begin with any sequence; one with a new epoch
        has to begin with 0. A retry is no longer in order: `duplicate_of` comes first. Kafka 3.9 defines
        DUPLICATE_SEQUENCE_NUMBER, but no broker answers with it.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, the epoch is below the last one; OUT_OF_ORDER_SEQUENCE_NUMBER;
                INVALID_TXN_STATE, the producer has a transaction open and the batch is not part of one.
        """
        producer = self._find(header.producer_id) if header.has_producer_id else None
        if producer is None:
            return
        if header.producer_epoch < producer.epoch:
            raise ApiError(
                Errors.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {header.producer_id} at offset {self.end_offset} in {self.partition} is "
                f"{header.producer_epoch}, which is smaller than the last seen epoch {producer.epoch}",
            )
        self._check_sequence(header, producer)
        if producer.transaction_start_offset != NO_OFFSET and not header.is_transactional:
            raise ApiError(
                Errors.INVALID_TXN_STATE,
                f"Expected transactional write from producer {header.producer_id} at offset {self.end_offset} in "
                f"partition {self.partition}",
            )

    def append(self, batch: RecordBatch) -> None:
        """Note a batch of the log: one that a client appended, that was replicated, or that is read in recovery.

        Epochs and sequences are not checked, because the leader has done that. A transactional batch opens a
        transaction, a control batch ends it. A leader calls this after `check`.

        Raises:
            NotDecompressed: the record of a control batch cannot be decompressed.
            InvalidRecord: it is not the end of a transaction. Nothing has changed then.
        """
        header = batch.header
        if header.has_producer_id:
            if header.is_control:
                self._append_control(batch)
            else:
                self._append_data(header)
        self.end_offset = header.next_offset

    # -------------------------------------------------------------- transactions

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest transaction begins that is open, or that ended above the high watermark; None without one.

        `READ_COMMITTED` reads up to here.
        """
        first = next(iter(self._ongoing)) if self._ongoing else None
        if not self._unreplicated:
            return first
        unreplicated = min(self._unreplicated)
        return unreplicated if first is None else min(first, unreplicated)

    def on_high_watermark(self, offset: int) -> None:
        """Forget the transactions whose end is below the high watermark."""
        if self._unreplicated:
            left = {first: last for first, last in self._unreplicated.items() if last >= offset}
            self._unreplicated = left or None

    def on_log_start_offset(self, offset: int) -> None:
        """Forget the transactions that ended before the log now begins.

        Producers stay, although their batches are gone: their retries must still be recognized.
        """
        self.on_high_watermark(offset)
        self.end_offset = max(self.end_offset, offset)

    # -------------------------------------------------------------- the whole

    @property
    def is_empty(self) -> bool:
        """Whether there is no producer, and no transaction above the high watermark."""
        return not self._producers and not self._unreplicated

    @property
    def producer_count(self) -> int:
        return len(self._producers) if self._producers else 0

    def remove_expired(self, now_ms: int) -> None:
        """Forget the producers that have been idle for too long and have no transaction open.

        Args:
            now_ms: milliseconds since 1970; compared with the timestamp of the producer's last batch.
        """
        if not self._producers:
            return
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_start_offset == NO_OFFSET and now_ms - producer.last_timestamp >= self.expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        if not self._producers:
            self._producers = None

    def entries(self) -> list[ProducerEntry]:
        """Return what a snapshot at `end_offset` has, by producer id: of each producer the last batch alone.

        DescribeProducers answers with the same.
        """
        return [_entry(producer_id, producer) for producer_id, producer in self._sorted()]

    def last_records(self) -> dict[int, LastRecord]:
        """Return where each producer has appended last, by producer id."""
        return {
            producer_id: LastRecord(producer.batches[-1].last_offset if producer.batches else None, producer.epoch)
            for producer_id, producer in self._sorted()
        }

    # -------------------------------------------------------------- parts

    def _find(self, producer_id: int) -> _Producer | None:
        return self._producers.get(producer_id) if self._producers else None

    def _find_or_add(self, producer_id: int) -> _Producer:
        if self._producers is None:
            self._producers = {}
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer()
        return producer

    def _sorted(self) -> list[tuple[int, _Producer]]:
        return sorted((self._producers or {}).items())

    def _load(self, entry: ProducerEntry) -> None:
        producer = self._find_or_add(entry.producer_id)
        producer.epoch = entry.producer_epoch
        producer.coordinator_epoch = entry.coordinator_epoch
        producer.last_timestamp = entry.timestamp
        if entry.last_offset >= 0:
            batch = AppendedBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            producer.batches = (batch,)
        if entry.transaction_start_offset >= 0:
            self._open_transaction(producer, entry.transaction_start_offset)

    def _check_sequence(self, header: BatchHeader, producer: _Producer) -> None:
        if producer.epoch == NO_PRODUCER_EPOCH:
            return
        sequence = header.base_sequence
        if header.producer_epoch != producer.epoch:
            if sequence != 0:
                raise ApiError(
                    Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {header.producer_id} at offset "
                    f"{self.end_offset} in partition {self.partition}: {header.producer_epoch} (request epoch), "
                    f"{sequence} (seq. number), {producer.epoch} (current producer epoch)",
                )
            return
        last = producer.last_sequence
        if sequence != last + 1 and not (sequence == 0 and last == _MAX_SEQUENCE):
            raise ApiError(
                Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} at offset {self.end_offset} in "
                f"partition {self.partition}: {sequence} (incoming seq. number), {last} (current end sequence number)",
            )

    def _append_data(self, header: BatchHeader) -> None:
        producer = self._find_or_add(header.producer_id)
        producer.add(header)
        if header.is_transactional and producer.transaction_start_offset == NO_OFFSET:
            self._open_transaction(producer, header.base_offset)

    def _append_control(self, batch: RecordBatch) -> None:
        header = batch.header
        marker = next(records(batch), None)
        if marker is None:
            # Compaction has removed the marker with its whole transaction; Kafka remembers the producer id alone.
            self._find_or_add(header.producer_id)
            return
        coordinator_epoch = _coordinator_epoch(marker)
        producer = self._find_or_add(header.producer_id)
        if producer.transaction_start_offset != NO_OFFSET:
            self._end_transaction(producer, header.base_offset)
        producer.set_epoch(header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp = marker.timestamp

    def _open_transaction(self, producer: _Producer, first_offset: int) -> None:
        producer.transaction_start_offset = first_offset
        if self._ongoing is None:
            self._ongoing = {}
        self._ongoing[first_offset] = None

    def _end_transaction(self, producer: _Producer, marker_offset: int) -> None:
        first_offset, producer.transaction_start_offset = producer.transaction_start_offset, NO_OFFSET
        if self._unreplicated is None:
            self._unreplicated = {}
        self._unreplicated[first_offset] = marker_offset
        if self._ongoing is not None:
            del self._ongoing[first_offset]
            if not self._ongoing:
                self._ongoing = None


def _entry(producer_id: int, producer: _Producer) -> ProducerEntry:
    last = producer.batches[-1] if producer.batches else AppendedBatch(NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)
    return ProducerEntry(
        producer_id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
    )


def _coordinator_epoch(record: Record) -> int:
    """Return the epoch of the transaction coordinator that wrote a marker. Mirrors `EndTransactionMarker`.

    Fields that a later version adds at the end are passed over.

    Raises:
        InvalidRecord: the record is not the end of a transaction.
    """
    key, value = record.key or b"", record.value or b""
    if len(key) < _CONTROL_KEY.size:
        raise InvalidRecord(
            f"Invalid value size found for end control record key. Must have at least {_CONTROL_KEY.size} bytes, "
            f"but found only {len(key)}"
        )
    version, control_type = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"Invalid version found for control record: {version}. May indicate data corruption")
    if control_type not in (_ABORT, _COMMIT):
        raise InvalidRecord(f"Invalid control record type for end transaction marker: {control_type}")
    if len(value) < _END_MARKER.size:
        raise InvalidRecord(
            f"Invalid value size found for end transaction marker. Must have at least {_END_MARKER.size} bytes, "
            f"but found only {len(value)}"
        )
    version, coordinator_epoch = _END_MARKER.unpack_from(value)
    if version < 0:
        raise InvalidRecord(
            f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
        )
    return int(coordinator_epoch)
