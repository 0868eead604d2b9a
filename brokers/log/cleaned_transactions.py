"""Decides which batches of transactions compaction removes: aborted ones at once, markers after them.

Mirrors `CleanedTransactionMetadata`. Kafka finds the aborted transactions in the index of transactions, which the logs
here do not have: they are found by reading the markers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from understudy.foundation.records.batch import RecordBatch
from understudy.foundation.records.record import records

_CONTROL_KEY: Final = Struct(">hh")
_ABORT: Final = 0
_COMMIT: Final = 1


class AbortedTxn(NamedTuple):
    """A transaction that was aborted: the offset of its first record, its producer, and the offset of its marker."""

    first_offset: int
    producer_id: int
    last_offset: int


class AbortedTransactions:
    """Finds the transactions that were aborted, in the batches of a log from its beginning on."""

    def __init__(self) -> None:
        self._open_since: dict[int, int] = {}
        self._found: list[AbortedTxn] = []

    def read(self, batch: RecordBatch) -> None:
        """Take the next batch.

        Raises:
            CorruptRecord, InvalidRecord: a marker cannot be read.
        """
        header = batch.header
        if header.is_control:
            first_offset = self._open_since.pop(header.producer_id, None)
            if first_offset is not None and _control_type(batch) == _ABORT:
                self._found.append(AbortedTxn(first_offset, header.producer_id, header.last_offset))
        elif header.is_transactional:
            self._open_since.setdefault(header.producer_id, header.base_offset)

    def found(self, *, ending_from: int = 0) -> list[AbortedTxn]:
        """Return those whose marker is at or after an offset, by first offset."""
        return sorted(each for each in self._found if each.last_offset >= ending_from)


class CleanedTransactions:
    """Follows the transactions of a log while its batches are read in order.

    Args:
        aborted: by first offset; those that end among the batches to come.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
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
