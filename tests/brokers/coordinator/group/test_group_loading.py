"""Tests of `GroupLoader`: the groups and offsets that the records of a partition stand for."""

from __future__ import annotations

from collections.abc import Sequence

from tests.brokers.coordinator.group.parts import GROUP, NOW_MS, ORDERS_0, ORDERS_1, group, member
from understudy.brokers.coordinator.group.group_loading import MOST_PROBLEMS, GroupLoader
from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_records import group_key, group_value, offset_key, offset_value
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.metadata_version import LATEST_PRODUCTION
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.messages import group_metadata as wire
from understudy.foundation.wire.version_prefixed import encode_prefixed

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"

Stored = tuple[bytes | None, bytes | None]


def offset(value: int, partition: TopicPartition = ORDERS_0, name: str = GROUP) -> Stored:
    return offset_key(name, partition), offset_value(
        OffsetAndMetadata(value, commit_timestamp=NOW_MS), LATEST_PRODUCTION
    )


def generation(number: int, *members: str) -> Stored:
    made = group(*(member(each) for each in members), in_state=GroupState.STABLE if members else GroupState.EMPTY)
    made.generation_id, made.protocol_name = number, "range" if members else None
    made.protocol_type = "consumer"
    return group_key(GROUP), group_value(made, dict.fromkeys(members, b"x"), LATEST_PRODUCTION)


def batch(at: int, *stored: Stored, producer_id: int = -1, is_control: bool = False) -> bytes:
    return encode_records(
        [Record(at + number, NOW_MS, key, value) for number, (key, value) in enumerate(stored)],
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        is_transactional=producer_id >= 0,
        is_control=is_control,
    )


def loaded(data: Sequence[bytes]) -> tuple[GroupLoader, dict[str, GroupMetadata]]:
    loader = GroupLoader(3, begin=0)
    for each in data:
        loader.add(each)
    return loader, {each.group_id: each for each in loader.groups(now_ms=NOW_MS)}


def offsets(found: GroupMetadata) -> dict[TopicPartition, int]:
    return {at: value.offset for at in found.offsets if (value := found.offsets.get(at)) is not None}


def test_the_last_record_of_a_group_and_of_each_partition_counts() -> None:
    loader, groups = loaded(
        [
            batch(0, generation(1, "a"), offset(5)),
            batch(2, offset(6), offset(7, ORDERS_1)),
            batch(4, generation(2, "b")),
        ]
    )
    found = groups[GROUP]
    assert (found.generation_id, list(found.members), found.partition) == (2, ["b"], 3)
    assert offsets(found) == {ORDERS_0: 6, ORDERS_1: 7}
    assert (loader.records, loader.next_offset, loader.unreadable) == (5, 5, 0)


def test_a_group_that_only_stores_offsets_is_empty() -> None:
    _, groups = loaded([batch(0, offset(5, name="simple"))])
    found = groups["simple"]
    assert (found.state, found.generation_id, found.protocol_type) == (GroupState.EMPTY, 0, None)
    assert offsets(found) == {ORDERS_0: 5}


def test_tombstones_delete() -> None:
    key, _ = offset(0)
    _, groups = loaded([batch(0, generation(1, "a"), offset(5), offset(6, ORDERS_1)), batch(3, (key, None))])
    assert offsets(groups[GROUP]) == {ORDERS_1: 6}
    _, groups = loaded([batch(0, generation(1, "a")), batch(1, (group_key(GROUP), None))])
    assert groups == {}


def test_a_group_that_was_deleted_and_used_again_is_there() -> None:
    _, groups = loaded([batch(0, generation(4)), batch(1, (group_key(GROUP), None)), batch(2, offset(9))])
    assert (groups[GROUP].generation_id, offsets(groups[GROUP])) == (0, {ORDERS_0: 9})


def test_what_cannot_be_read_is_left_out_and_described() -> None:
    key, value = offset(8, ORDERS_1)
    loader, groups = loaded(
        [batch(0, offset(5), (None, b"x"), (b"\0\1\0", b"x"), (key, value and value[:-1]), offset(6))]
    )
    assert offsets(groups[GROUP]) == {ORDERS_0: 6}
    assert loader.unreadable == 3
    assert [problem.partition(":")[0] for problem in loader.problems] == ["offset 1", "offset 2", "offset 3"]


def test_a_later_offset_that_cannot_be_read_leaves_the_one_before() -> None:
    key, value = offset(8)
    loader, groups = loaded([batch(0, offset(5), (key, value and value[:-1]), offset(7, ORDERS_1))])
    assert offsets(groups[GROUP]) == {ORDERS_0: 5, ORDERS_1: 7}
    assert (loader.unreadable, loader.problems[0].partition(":")[0]) == (1, "offset 1")


def test_a_key_with_bytes_after_its_partition_is_not_taken_for_another_partition() -> None:
    longer = [(key + b"\0\0\0\5", value) for key, value in (offset(5), offset(6, ORDERS_1)) if key]
    _, groups = loaded([batch(0, *longer, *longer)])
    assert offsets(groups[GROUP]) == {ORDERS_0: 5, ORDERS_1: 6}


def test_keys_of_both_versions_are_of_the_same_partition() -> None:
    key, value = offset(6)
    of_version_0 = (b"\0\0" + (key or b"")[2:], value)
    for order in ((offset(5), of_version_0, offset(9, ORDERS_1)), (of_version_0, offset(9, ORDERS_1), of_version_0)):
        _, groups = loaded([batch(0, *order)])
        assert offsets(groups[GROUP]) == {ORDERS_0: 6, ORDERS_1: 9}


def test_few_of_many_unreadable_records_are_described() -> None:
    loader, _ = loaded([batch(0, *[(b"\0\1\0", b"x")] * 100)])
    assert (loader.unreadable, len(loader.problems)) == (100, MOST_PROBLEMS)


def test_a_damaged_batch_is_left_out_and_the_next_one_read() -> None:
    damaged = bytearray(batch(0, offset(5)))
    damaged[-1] ^= 1
    loader, groups = loaded([bytes(damaged) + batch(1, offset(6, ORDERS_1))])
    assert offsets(groups[GROUP]) == {ORDERS_1: 6}
    assert (loader.unreadable, loader.next_offset) == (1, 2)


def test_reading_ends_where_the_next_batch_cannot_be_found() -> None:
    broken = bytearray(batch(1, offset(6)))
    broken[16] = 9
    loader, groups = loaded([batch(0, offset(5)), bytes(broken)])
    assert offsets(groups[GROUP]) == {ORDERS_0: 5}
    assert (loader.next_offset, loader.unreadable) == (1, 1)


def test_a_stored_group_that_makes_no_sense_is_left_out() -> None:
    value = wire.GroupMetadataValue(protocol_type="consumer", members=(wire.MemberMetadata(member_id="a"),))
    loader, groups = loaded([batch(0, (group_key("odd"), encode_prefixed(value, 3)), generation(1, "a"))])
    assert list(groups) == [GROUP]
    assert loader.unreadable == 1


def test_records_of_unknown_versions_are_noted() -> None:
    loader, groups = loaded([batch(0, (b"\0\3later", b"x"), offset(5))])
    assert (loader.unknown_versions, loader.unreadable, list(groups)) == ({3}, 0, [GROUP])


def test_a_batch_that_is_cut_off_is_read_with_the_next_bytes() -> None:
    whole = batch(0, offset(5)) + batch(1, offset(6))
    loader = GroupLoader(0, begin=0)
    loader.add(whole[:-3])
    assert loader.next_offset == 1
    loader.add(batch(1, offset(6)))
    assert offsets(loader.groups(now_ms=0)[0]) == {ORDERS_0: 6}


# ------------------------------------------------------------------ offsets that Kafka's brokers stored in transactions


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    in_transaction = batch(0, offset(5), producer_id=9)
    loader, groups = loaded([in_transaction])
    assert (groups, loader.open_transactions) == ({}, 1)
    loader, groups = loaded([in_transaction, batch(1, (COMMIT, b"x"), producer_id=9, is_control=True)])
    assert (offsets(groups[GROUP]), loader.open_transactions) == ({ORDERS_0: 5}, 0)
    loader, groups = loaded([in_transaction, batch(1, (ABORT, b"x"), producer_id=9, is_control=True)])
    assert (groups, loader.open_transactions) == ({}, 0)


def test_a_commit_after_that_of_the_transaction_stays() -> None:
    _, groups = loaded(
        [
            batch(0, offset(5), producer_id=9),
            batch(1, offset(6)),
            batch(2, (COMMIT, b"x"), producer_id=9, is_control=True),
        ]
    )
    assert offsets(groups[GROUP]) == {ORDERS_0: 6}
