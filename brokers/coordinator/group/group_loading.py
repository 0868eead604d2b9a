"""Folds the records of one partition of `__consumer_offsets` into its groups. Mirrors `doLoadGroupsAndOffsets`.

What cannot be read is left out and counted, so that one damaged record does not take the offsets of all groups with it.
Offsets of transactions, which Kafka's brokers may have written, count once their transaction is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from brokers.coordinator.group.group_metadata import GroupMetadata
from brokers.coordinator.group.group_offsets import CommittedOffset
from brokers.coordinator.group.group_records import (
    GroupRecord,
    InvalidStoredGroup,
    OffsetRecord,
    UnknownRecord,
    loaded_group,
    read_stored,
)
from foundation.cluster.identifiers import TopicPartition
from foundation.records.batch import RecordBatch, batches, check_crc
from foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from foundation.records.record import Record, records
from foundation.records.varint import Buffer
from foundation.wire.errors import WireError

_COMMIT_MARKER = b"\0\0\0\1"
"""The key of the control record that commits a transaction: version 0, type 1."""

MOST_PROBLEMS = 20
"""So many unreadable records are described; the others are counted."""


class _GroupPartition(NamedTuple):
    group_id: str
    partition: TopicPartition


class GroupLoader:
    """Reads the records of one partition, in order.

    Attributes:
        next_offset: the offset to read on from.
        records: how many were read.
        problems: what could not be read, with its offset; at most `MOST_PROBLEMS` of `unreadable`.
        unknown_versions: key versions that no release up to 3.9 has.
    """

    def __init__(self, partition: int, *, begin: int) -> None:
        self.partition = partition
        self.next_offset = begin
        self.records = 0
        self.unreadable = 0
        self.problems: list[str] = []
        self.unknown_versions: set[int] = set()
        self._groups: dict[str, GroupRecord] = {}
        self._offsets: dict[_GroupPartition, CommittedOffset] = {}
        self._of_transactions: dict[int, dict[_GroupPartition, CommittedOffset]] = {}

    def add(self, data: Buffer) -> None:
        """Read the whole batches in `data`, which begins with the batch that has `next_offset`."""
        try:
            for batch in batches(data):
                self.next_offset = max(self.next_offset, batch.header.next_offset)
                try:
                    check_crc(batch)
                    self._add_batch(batch)
                except (CorruptRecord, InvalidRecord) as error:
                    self._note(batch.header.base_offset, str(error))
        except (CorruptRecord, UnsupportedMagic) as error:
            # Where the next batch begins is not known. The caller sees that `next_offset` stays.
            self._note(self.next_offset, str(error))

    def groups(self, *, now_ms: int) -> list[GroupMetadata]:
        """Return the groups as of the records, with their offsets.

        Args:
            now_ms: wall time; when groups that only have offsets count as Empty from.
        """
        loaded: dict[str, GroupMetadata] = {}
        for group_id, record in self._groups.items():
            try:
                loaded[group_id] = loaded_group(record, self.partition)
            except InvalidStoredGroup as invalid:
                self._note(self.next_offset, str(invalid))
        by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for (group_id, partition), offset in self._offsets.items():
            by_group.setdefault(group_id, {})[partition] = offset
        for group_id, offsets in by_group.items():
            if group_id not in loaded:
                loaded[group_id] = GroupMetadata(group_id, self.partition, now_ms=now_ms)
            loaded[group_id].offsets.load(offsets)
        return list(loaded.values())

    @property
    def open_transactions(self) -> int:
        """The producers whose transactions have offsets here and are not decided."""
        return len(self._of_transactions)

    def _add_batch(self, batch: RecordBatch) -> None:
        header = batch.header
        if header.is_control:
            self._end_transaction(header.producer_id, records_of=batch)
            return
        offsets = self._of_transactions.setdefault(header.producer_id, {}) if header.is_transactional else None
        appended_at = None
        for record in records(batch):
            # Compaction may have removed the first records of a batch; the first one left is what Kafka compares.
            appended_at = record.offset if appended_at is None else appended_at
            self._add_record(record, appended_at, offsets)

    def _add_record(
        self, record: Record, appended_at: int, of_transaction: dict[_GroupPartition, CommittedOffset] | None
    ) -> None:
        self.records += 1
        if record.key is None:
            self._note(record.offset, "it has no key")
            return
        try:
            stored = read_stored(record.key, record.value)
        except WireError as error:
            self._note(record.offset, str(error))
            return
        if isinstance(stored, OffsetRecord):  # nearly all are; a class pattern takes longer
            about = _GroupPartition(stored.group_id, stored.partition)
            offsets = self._offsets if of_transaction is None else of_transaction
            if stored.value is None:
                offsets.pop(about, None)
            else:
                offsets[about] = CommittedOffset(appended_at, stored.value)
            return
        match stored:
            case GroupRecord(group_id, None):
                self._groups.pop(group_id, None)
            case GroupRecord(group_id):
                # A later record of a group counts as its last one, also for the order of groups.
                self._groups.pop(group_id, None)
                self._groups[group_id] = stored
            case UnknownRecord(version):
                self.unknown_versions.add(version)

    def _end_transaction(self, producer_id: int, *, records_of: RecordBatch) -> None:
        offsets: Mapping[_GroupPartition, CommittedOffset] = self._of_transactions.pop(producer_id, {})
        marker = next(iter(records(records_of)), None)
        if marker is None or marker.key != _COMMIT_MARKER:
            return
        for about, offset in offsets.items():
            before = self._offsets.get(about)
            if before is None or before.appended_at < offset.appended_at:
                self._offsets[about] = offset

    def _note(self, offset: int, why: str) -> None:
        self.unreadable += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"offset {offset}: {why}")
