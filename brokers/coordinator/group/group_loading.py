"""Folds the records of one partition of `__consumer_offsets` into its groups. Mirrors `doLoadGroupsAndOffsets`.

What cannot be read is left out and counted, so that one damaged record does not take the offsets of all groups with it.
Offsets of transactions, which Kafka's brokers may have written, count once their transaction is committed.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_offsets import CommittedOffset
from understudy.brokers.coordinator.group.group_records import (
    PARTITION_BYTES,
    GroupRecord,
    InvalidStoredGroup,
    OffsetRecord,
    UnknownRecord,
    key_without_partition,
    loaded_group,
    read_offset,
    read_stored,
)
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import RecordBatch, batches, check_crc
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord, UnsupportedMagic
from understudy.foundation.records.record import Record, records
from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.errors import WireError

_COMMIT_MARKER = b"\0\0\0\1"
"""The key of the control record that commits a transaction: version 0, type 1."""

MOST_PROBLEMS = 20
"""Maximum number of unreadable records that are described; the others are counted."""


_Offsets: TypeAlias = dict[str, dict[TopicPartition, CommittedOffset]]
"""By group."""


class _Partitions(dict[bytes, TopicPartition]):
    """The partitions of one topic, by the bytes that end their keys. All groups share them."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __missing__(self, number: bytes) -> TopicPartition:
        found = self[number] = TopicPartition(self._topic, int.from_bytes(number, "big", signed=True))
        return found


class _GroupTopic(NamedTuple):
    """The group and the topic that offsets belong to."""

    offsets: dict[TopicPartition, CommittedOffset]
    """The offsets of the group."""
    partitions: _Partitions


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
        self._offsets: _Offsets = {}
        self._of_transactions: dict[int, _Offsets] = {}
        self._group_topics: dict[bytes, _GroupTopic] = {}
        """By what the keys of their partitions begin with."""
        self._topics: dict[str, _Partitions] = {}

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
        for group_id, offsets in self._offsets.items():
            if not offsets:
                continue
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
        of_transaction = self._of_transactions.setdefault(header.producer_id, {}) if header.is_transactional else None
        appended_at = None
        for record in records(batch):
            self.records += 1
            # Compaction may have removed the first records of a batch; the first one left is what Kafka compares.
            appended_at = record.offset if appended_at is None else appended_at
            try:
                if of_transaction is not None or not self._add_known(record, appended_at):
                    self._add_record(record, appended_at, of_transaction)
            except WireError as error:
                self._note(record.offset, str(error))

    def _add_known(self, record: Record, appended_at: int) -> bool:
        """Take an offset of a group and topic that had one before, in less time than others; return whether it is one.

        Nearly all records are: the records of a commit have keys that differ in the partition alone.
        """
        key, value = record.key, record.value
        if key is None or value is None or (group_topic := self._group_topics.get(key[:-PARTITION_BYTES])) is None:
            return False
        offsets, partitions = group_topic
        offsets[partitions[key[-PARTITION_BYTES:]]] = CommittedOffset(appended_at, read_offset(value))
        return True

    def _add_record(self, record: Record, appended_at: int, of_transaction: _Offsets | None) -> None:
        if record.key is None:
            self._note(record.offset, "it has no key")
            return
        stored = read_stored(record.key, record.value)
        match stored:
            case OffsetRecord():
                offsets = self._offsets if of_transaction is None else of_transaction
                of_group = offsets.setdefault(stored.group_id, {})
                if stored.value is None:
                    of_group.pop(stored.partition, None)
                else:
                    of_group[stored.partition] = CommittedOffset(appended_at, stored.value)
                begin = key_without_partition(record.key, stored)
                if begin is not None and of_transaction is None:
                    topic = stored.partition.topic
                    partitions = self._topics.setdefault(topic, _Partitions(topic))
                    self._group_topics[begin] = _GroupTopic(of_group, partitions)
            case GroupRecord(group_id, None):
                self._groups.pop(group_id, None)
            case GroupRecord(group_id):
                # A later record of a group counts as its last one, also for the order of groups.
                self._groups.pop(group_id, None)
                self._groups[group_id] = stored
            case UnknownRecord(version):
                self.unknown_versions.add(version)

    def _end_transaction(self, producer_id: int, *, records_of: RecordBatch) -> None:
        of_transaction = self._of_transactions.pop(producer_id, {})
        marker = next(iter(records(records_of)), None)
        if marker is None or marker.key != _COMMIT_MARKER:
            return
        for group_id, offsets in of_transaction.items():
            committed = self._offsets.setdefault(group_id, {})
            for partition, offset in offsets.items():
                before = committed.get(partition)
                if before is None or before.appended_at < offset.appended_at:
                    committed[partition] = offset

    def _note(self, offset: int, why: str) -> None:
        self.unreadable += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"offset {offset}: {why}")
