"""Decides which batches of transactions compaction removes: those of aborted ones at once, markers after them.

Mirrors `CleanedTransactionMetadata`. Kafka finds the aborted transactions in the index of transactions, which the logs
here do not have: they are found by reading the markers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from foundation.records.batch import RecordBatch
from foundation.records.record import records

_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, and the offset of its first record."""

    first_offset: int
    producer_id: int


def aborted_transactions(batches: Iterable[RecordBatch]) -> list[AbortedTransaction]:
    """Return the transactions that were aborted, by first offset.

    Args:
        batches: those of the log from its beginning up to the last stable offset, in order.
    """
    open_since: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    for batch in batches:
        header = batch.header
        if header.is_control:
            first_offset = open_since.pop(header.producer_id, None)
            if first_offset is not None and _control_type(batch) == _ABORT:
                aborted.append(AbortedTransaction(first_offset, header.producer_id))
        elif header.is_transactional:
            open_since.setdefault(header.producer_id, header.base_offset)
    return sorted(aborted)


class CleanedTransactions:
    """Follows the transactions of a log while its batches are read in order.

    Args:
        aborted: what `aborted_transactions` has returned.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = deque(aborted)
        self._aborted: set[int] = set()
        """The producers within a transaction that was aborted."""
        self._aborted_with_batches: set[int] = set()
        self._committed: set[int] = set()

    def can_discard(self, batch: RecordBatch) -> bool:
        """Return whether a batch is of no use: its transaction was aborted, or it is a marker without its batches.

        Every batch is to be given, in order.

        Raises:
            CorruptRecord, InvalidRecord: a marker cannot be read.
        """
        header = batch.header
        producer_id = header.producer_id
        while self._to_come and self._to_come[0].first_offset <= header.last_offset:
            self._aborted.add(self._to_come.popleft().producer_id)
        if not header.is_control:
            if not header.is_transactional:
                return False
            if producer_id in self._aborted:
                self._aborted_with_batches.add(producer_id)
                return True
            self._committed.add(producer_id)
            return False
        control_type = _control_type(batch)
        if control_type == _ABORT:
            has_batches = producer_id in self._aborted_with_batches
            self._aborted.discard(producer_id)
            self._aborted_with_batches.discard(producer_id)
            return not has_batches
        if control_type == _COMMIT:
            has_batches = producer_id in self._committed
            self._committed.discard(producer_id)
            return not has_batches
        # A batch without its record was emptied before.
        return control_type is None


def _control_type(batch: RecordBatch) -> int | None:
    """Return the type of a control record, None for an empty batch."""
    record = next(records(batch), None)
    if record is None or record.key is None or len(record.key) < _CONTROL_KEY.size:
        return None
    return int(_CONTROL_KEY.unpack_from(record.key)[1])
