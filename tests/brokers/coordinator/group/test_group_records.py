"""Tests of the records of `__consumer_offsets`: the bytes that Kafka 3.9 writes, and reading of every version."""

from __future__ import annotations

import struct

import pytest

from tests.brokers.coordinator.group.parts import GROUP, NOW_MS, ORDERS_0, group, member, subscription
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_records import (
    GroupRecord,
    InvalidStoredGroup,
    OffsetRecord,
    UnknownRecord,
    encode_stored,
    group_key,
    group_value,
    loaded_group,
    offset_key,
    offset_value,
    read_stored,
)
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.records.batch import batches
from understudy.foundation.records.record import records
from understudy.foundation.wire.errors import WireError
from understudy.foundation.wire.messages import group_metadata as wire
from understudy.foundation.wire.version_prefixed import encode_prefixed

V = MetadataVersion
NEWEST = V.IBP_3_9_IV0
COMMITTED = OffsetAndMetadata(offset=42, leader_epoch=7, metadata="at", commit_timestamp=NOW_MS)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_keys_and_offsets_have_the_bytes_of_kafka() -> None:
    assert group_key(GROUP) == b"\0\2" + text(GROUP)
    assert offset_key(GROUP, ORDERS_0) == b"\0\1" + text(GROUP) + text("orders") + b"\0\0\0\0"
    assert offset_value(COMMITTED, NEWEST) == b"\0\3" + struct.pack(">qi", 42, 7) + text("at") + struct.pack(
        ">q", NOW_MS
    )


def test_a_group_has_the_bytes_of_kafka() -> None:
    one = member("m-1", instance="i")
    made = group(one, in_state=GroupState.STABLE)
    made.generation_id, made.protocol_name = 3, "range"
    assert group_value(made, {"m-1": b"mine"}, NEWEST) == (
        b"\0\3"
        + text("consumer")
        + struct.pack(">i", 3)
        + text("range")
        + text("m-1")
        + struct.pack(">qi", NOW_MS, 1)
        + text("m-1")
        + text("i")
        + text("client")
        + text("/127.0.0.1")
        + struct.pack(">ii", 30_000, 10_000)
        + struct.pack(">i", len(subscription("orders")))
        + subscription("orders")
        + struct.pack(">i", 4)
        + b"mine"
    )


@pytest.mark.parametrize(
    ("protocol", "version"),
    [(V.IBP_0_10_0_IV0, 1), (V.IBP_2_0_IV1, 1), (V.IBP_2_1_IV0, 2), (V.IBP_2_1_IV1, 3), (NEWEST, 3)],
)
def test_offsets_are_written_as_the_oldest_broker_can_read_them(protocol: V, version: int) -> None:
    assert offset_value(COMMITTED, protocol)[:2] == struct.pack(">h", version)
    read = read_stored(offset_key(GROUP, ORDERS_0), offset_value(COMMITTED, protocol))
    expected = COMMITTED if version == 3 else COMMITTED._replace(leader_epoch=-1)
    assert read == OffsetRecord(GROUP, ORDERS_0, expected)


def test_an_offset_with_an_expiry_of_its_own_keeps_it() -> None:
    expiring = COMMITTED._replace(expire_timestamp=NOW_MS + 5)
    data = offset_value(expiring, NEWEST)
    assert data[:2] == b"\0\1"
    assert read_stored(offset_key(GROUP, ORDERS_0), data) == OffsetRecord(
        GROUP, ORDERS_0, expiring._replace(leader_epoch=-1)
    )


@pytest.mark.parametrize(
    ("protocol", "version"),
    [(V.IBP_0_9_0, 0), (V.IBP_0_10_1_IV0, 1), (V.IBP_2_1_IV0, 2), (V.IBP_2_3_IV0, 3), (NEWEST, 3)],
)
def test_groups_are_written_as_the_oldest_broker_can_read_them(protocol: V, version: int) -> None:
    made = group(member("a"), member("b"), in_state=GroupState.STABLE)
    made.generation_id, made.protocol_name = 3, "range"
    data = group_value(made, {"a": b"x", "b": b""}, protocol)
    assert data[:2] == struct.pack(">h", version)
    record = read_stored(group_key(GROUP), data)
    assert isinstance(record, GroupRecord)
    read = loaded_group(record, 4)
    assert (read.group_id, read.partition, read.state, read.generation_id) == (GROUP, 4, GroupState.STABLE, 3)
    assert (read.leader_id, read.protocol_type, read.protocol_name) == ("a", "consumer", "range")
    assert read.state_timestamp == (NOW_MS if version >= 2 else None)
    assert read.subscribed_topics == frozenset({"orders"})
    first, second = read.members.values()
    assert (first.assignment, second.assignment, second.client_host) == (b"x", b"", "/127.0.0.1")
    assert (first.session_timeout_ms, first.rebalance_timeout_ms) == (10_000, 10_000 if version == 0 else 30_000)
    assert first.metadata("range") == subscription("orders")


def test_an_empty_group_is_read_as_such() -> None:
    made = group()
    made.generation_id, made.protocol_type = 5, "consumer"
    record = read_stored(group_key(GROUP), group_value(made, {}, NEWEST))
    assert isinstance(record, GroupRecord)
    read = loaded_group(record, 0)
    assert (read.state, read.generation_id, read.protocol_type, read.leader_id) == (
        GroupState.EMPTY,
        5,
        "consumer",
        None,
    )
    assert read.subscribed_topics == frozenset()


@pytest.mark.parametrize("metadata", ["", "m"])
@pytest.mark.parametrize(("stored_epoch", "epoch"), [(5, 5), (-1, -1), (-7, -1)])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_version_are_read(version: int, stored_epoch: int, epoch: int, metadata: str) -> None:
    value = wire.OffsetCommitValue(offset=9, leader_epoch=stored_epoch, metadata=metadata, commit_timestamp=1)
    written = encode_prefixed(value, version)
    assert read_stored(offset_key(GROUP, ORDERS_0), written) == OffsetRecord(
        GROUP, ORDERS_0, OffsetAndMetadata(9, epoch if version >= 3 else -1, metadata, commit_timestamp=1)
    )


def test_an_offset_without_metadata_is_refused() -> None:
    value = bytearray(encode_prefixed(wire.OffsetCommitValue(offset=9, metadata=""), 3))
    value[14:16] = b"\xff\xff"
    with pytest.raises(WireError):
        read_stored(offset_key(GROUP, ORDERS_0), bytes(value))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_groups_of_every_version_are_read(version: int) -> None:
    stored = wire.GroupMetadataValue(protocol_type="consumer", generation=2)
    read = read_stored(group_key(GROUP), encode_prefixed(stored, version))
    assert isinstance(read, GroupRecord)
    assert read.value is not None
    assert (read.value.generation, read.version) == (2, version)


def test_a_value_of_null_is_a_tombstone() -> None:
    assert read_stored(offset_key(GROUP, ORDERS_0), None) == OffsetRecord(GROUP, ORDERS_0, None)
    assert read_stored(group_key(GROUP), None) == GroupRecord(GROUP, None)


def test_a_key_of_a_later_version_is_unknown() -> None:
    assert read_stored(b"\0\3anything", b"x") == UnknownRecord(3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\0\1", b""),
        (b"\0\2\0\x09short", b"\0\3"),
        (offset_key(GROUP, ORDERS_0), b"\0\x09"),
        (offset_key(GROUP, ORDERS_0), b""),
        (offset_key(GROUP, ORDERS_0), offset_value(COMMITTED, NEWEST)[:-1]),
        (group_key(GROUP), b"\0\3\xff"),
    ],
)
def test_what_is_no_such_record_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(WireError):
        read_stored(key, value)


STORED = wire.MemberMetadata(member_id="a", client_id="c", client_host="h", session_timeout=1)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (wire.GroupMetadataValue(protocol_type="consumer", members=(STORED,)), "has members and no protocol"),
        (wire.GroupMetadataValue(protocol="range", members=(STORED, STORED)), "two members with one member id"),
        (
            wire.GroupMetadataValue(
                protocol="range",
                members=(
                    wire.MemberMetadata(member_id="a", group_instance_id="i"),
                    wire.MemberMetadata(member_id="b", group_instance_id="i"),
                ),
            ),
            "two members with one instance id",
        ),
    ],
)
def test_a_stored_group_that_makes_no_sense_is_refused(value: wire.GroupMetadataValue, why: str) -> None:
    with pytest.raises(InvalidStoredGroup, match=why):
        loaded_group(GroupRecord(GROUP, value, 3), 0)


def test_a_stored_leader_that_is_no_member_is_replaced() -> None:
    value = wire.GroupMetadataValue(protocol="range", leader="gone", members=(STORED,))
    assert loaded_group(GroupRecord(GROUP, value, 3), 0).leader_id == "a"


def test_many_tombstones_are_divided_into_batches() -> None:
    keys = [offset_key("g" * 30_000, ORDERS_0._replace(partition=number)) for number in range(40)]
    encoded = list(encode_stored(((key, None) for key in keys), now_ms=NOW_MS))
    assert len(encoded) > 1
    assert max(len(each) for each in encoded) < 600_000
    found = [record for data in encoded for batch in batches(data) for record in records(batch)]
    assert [(record.key, record.value, record.timestamp) for record in found] == [(key, None, NOW_MS) for key in keys]
