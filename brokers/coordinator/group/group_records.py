"""The records of `__consumer_offsets`, from and to groups and offsets. Mirrors the companion of `GroupMetadataManager`.

The versions written are Kafka 3.9's: 3 for offsets and groups, or older ones by `inter.broker.protocol.version`; an
offset with an expiry of its own is of version 1. Every version is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple, TypeAlias

from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_offsets import NO_LEADER_EPOCH, OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.member_metadata import MemberMetadata
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.records.batch import NO_SEQUENCE
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.messages import group_metadata as wire
from understudy.foundation.wire.messages.offset_commit import DEFAULT_TIMESTAMP
from understudy.foundation.wire.version_prefixed import (
    LAYOUTS,
    VERSION_BYTES,
    decode_prefixed,
    encode_prefixed,
    version_of,
)

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
_NEWEST_OFFSET_KEY = LAYOUTS[wire.OffsetCommitKey].max_version

BATCH_BYTES = 500_000
"""Number of bytes of keys after which tombstones go into another batch: a topic's batches are limited, to 1 MB by
default."""

FIRST_SEQUENCE = 0
"""The sequence number of commits: Kafka writes one, though they have no producer id; other batches have none."""

_PLAIN_VALUE = Struct(">hqihq")
_PLAIN_VERSION = 3
"""Version of the `OffsetCommitValue` that has, without metadata: version, offset, leader epoch, length, commit
timestamp."""

PARTITION_BYTES = 4
"""Number of bytes at the end of an offset's key that hold the partition."""

KeyAndValue: TypeAlias = tuple[bytes, bytes | None]


class OffsetRecord(NamedTuple):
    """A committed offset of a group; None for a tombstone."""

    group_id: str
    partition: TopicPartition
    value: OffsetAndMetadata | None


class GroupRecord(NamedTuple):
    """A group in one of its generations; None for a tombstone."""

    group_id: str
    value: wire.GroupMetadataValue | None
    version: int = 0
    """The version of the value."""


class UnknownRecord(NamedTuple):
    """A record whose key is of a version that Kafka 3.9 does not know either."""

    key_version: int


class InvalidStoredGroup(ValueError):
    """A stored group makes no sense; the message names the group and the mistake."""


StoredRecord: TypeAlias = OffsetRecord | GroupRecord | UnknownRecord


def offset_key(group_id: str, partition: TopicPartition) -> bytes:
    key = wire.OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
    return encode_prefixed(key, OFFSET_KEY_VERSION)


def group_key(group_id: str) -> bytes:
    return encode_prefixed(wire.GroupMetadataKey(group=group_id), GROUP_KEY_VERSION)


def offset_value(offset: OffsetAndMetadata, protocol: MetadataVersion) -> bytes:
    """Return the value of a committed offset, as brokers of `protocol` can read it."""
    if protocol < MetadataVersion.IBP_2_1_IV0 or offset.expire_timestamp is not None:
        version = 1
    elif protocol < MetadataVersion.IBP_2_1_IV1:
        version = 2
    else:
        version = 3
    value = wire.OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=DEFAULT_TIMESTAMP if offset.expire_timestamp is None else offset.expire_timestamp,
    )
    return encode_prefixed(value, version)


def group_value(group: GroupMetadata, assignment: Mapping[str, bytes], protocol: MetadataVersion) -> bytes:
    """Return the value of a group in its present generation, as brokers of `protocol` can read it.

    Args:
        assignment: by member id; it has all members.
    """
    if protocol < MetadataVersion.IBP_0_10_1_IV0:
        version = 0
    elif protocol < MetadataVersion.IBP_2_1_IV0:
        version = 1
    elif protocol < MetadataVersion.IBP_2_3_IV0:
        version = 2
    else:
        version = 3
    value = wire.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=DEFAULT_TIMESTAMP if group.state_timestamp is None else group.state_timestamp,
        members=tuple(
            wire.MemberMetadata(
                member_id=member.member_id,
                # Brokers before 2.3 do not know static members, and requests with one are refused at that version.
                group_instance_id=member.group_instance_id if version >= 3 else None,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignment[member.member_id],
            )
            for member in group.members.values()
        ),
    )
    return encode_prefixed(value, version)


def encode_stored(
    stored: Iterable[KeyAndValue], *, now_ms: int, compression: Compression = Compression.NONE
) -> Iterator[bytes]:
    """Yield batches with these records; each has some `BATCH_BYTES` of keys and values, or one record."""
    batch: list[Record] = []
    size = 0
    for key, value in stored:
        added = len(key) + len(value or b"")
        if batch and size + added > BATCH_BYTES:
            yield encode_records(batch, compression=compression)
            batch, size = [], 0
        batch.append(Record(len(batch), now_ms, key, value))
        size += added
    if batch:
        yield encode_records(batch, compression=compression)


def encode_batch_of(
    stored: Iterable[KeyAndValue], *, now_ms: int, compression: Compression, base_sequence: int = NO_SEQUENCE
) -> bytes:
    """Return one batch with all these records, at least one: they are appended together or not at all."""
    batch = [Record(number, now_ms, key, value) for number, (key, value) in enumerate(stored)]
    return encode_records(batch, compression=compression, base_sequence=base_sequence)


def read_stored(key: bytes, value: bytes | None) -> StoredRecord:
    """Return what a record of the topic says.

    Raises:
        WireError: key or value cannot be read.
    """
    key_version = version_of(key)
    if key_version <= _NEWEST_OFFSET_KEY:
        about = decode_prefixed(wire.OffsetCommitKey, key)
        partition = TopicPartition(about.topic, about.partition)
        return OffsetRecord(about.group, partition, None if value is None else read_offset(value))
    if key_version == GROUP_KEY_VERSION:
        group_id = decode_prefixed(wire.GroupMetadataKey, key).group
        if value is None:
            return GroupRecord(group_id, None)
        return GroupRecord(group_id, decode_prefixed(wire.GroupMetadataValue, value), version_of(value))
    return UnknownRecord(key_version)


def key_without_partition(key: bytes, of: OffsetRecord) -> bytes | None:
    """Return the bytes that the keys of all partitions of the same group and topic begin with.

    Args:
        of: the record that `key` was read as.

    Returns:
        None for a key with more bytes than group, topic and partition take.
    """
    expected = offset_key(of.group_id, of.partition)
    return key[:-PARTITION_BYTES] if key[VERSION_BYTES:] == expected[VERSION_BYTES:] else None


def read_offset(data: bytes) -> OffsetAndMetadata:
    """Return what the value of a committed offset says.

    Raises:
        WireError: it cannot be read.
    """
    if len(data) == _PLAIN_VALUE.size:
        # Most values are such ones, and a new coordinator reads a hundred thousand of them.
        version, offset, leader_epoch, metadata_length, commit_timestamp = _PLAIN_VALUE.unpack(data)
        if version == _PLAIN_VERSION and metadata_length == 0:
            epoch = max(NO_LEADER_EPOCH, leader_epoch)
            return OffsetAndMetadata(offset, epoch, "", commit_timestamp)
    value = decode_prefixed(wire.OffsetCommitValue, data)
    epoch, expiry = value.leader_epoch, value.expire_timestamp
    return OffsetAndMetadata(
        value.offset,
        max(NO_LEADER_EPOCH, epoch),
        value.metadata,
        value.commit_timestamp,
        None if expiry == DEFAULT_TIMESTAMP else expiry,
    )


def loaded_group(record: GroupRecord, partition: int) -> GroupMetadata:
    """Return the group as of a record: Stable with its members, or Empty (`GroupMetadata.loadGroup`).

    Args:
        partition: the partition of `__consumer_offsets` that has the record.

    Raises:
        InvalidStoredGroup: it has members and no protocol, or two members with one id.
    """
    value = record.value
    assert value is not None, "a tombstone is no group"
    _check(record.group_id, value)
    since = None if value.current_state_timestamp == DEFAULT_TIMESTAMP else value.current_state_timestamp
    group = GroupMetadata(
        record.group_id,
        partition,
        now_ms=since,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
    )
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader if any(stored.member_id == value.leader for stored in value.members) else None
    for stored in value.members:
        group.add(
            MemberMetadata(
                stored.member_id,
                group_instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.session_timeout if record.version == 0 else stored.rebalance_timeout,
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type,
                supported_protocols=((value.protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def _check(group_id: str, value: wire.GroupMetadataValue) -> None:
    if not value.members:
        return
    if value.protocol is None:
        raise InvalidStoredGroup(f"group {group_id} has members and no protocol")
    instances = [member.group_instance_id for member in value.members if member.group_instance_id is not None]
    for ids, what in (([member.member_id for member in value.members], "member"), (instances, "instance")):
        if len(set(ids)) < len(ids):
            raise InvalidStoredGroup(f"group {group_id} has two members with one {what} id")
