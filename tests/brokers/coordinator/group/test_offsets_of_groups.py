"""Tests of OffsetCommit and OffsetFetch at the coordinator, and of how offsets are stored, expire and are deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    NOW_MS,
    ORDERS_0,
    ORDERS_1,
    CoordinatorInVirtualTime,
)
from understudy.brokers.coordinator.group.group_coordinator import LeavingMember
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_records import OffsetRecord, group_key, offset_key, read_stored
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.records.compression import Compression

It = CoordinatorInVirtualTime
A_WEEK_MS = 7 * 24 * 3_600_000


def error_of(committing: asyncio.Task[dict[TopicPartition, Errors]]) -> str:
    [error] = committing.result().values()
    return error.name


# ------------------------------------------------------------------ commits


def test_a_client_without_a_group_commits_and_fetches(it: It) -> None:
    assert it.fetched() == -1
    assert error_of(it.commit(5)) == "NONE"
    assert (it.fetched(), it.fetched(ORDERS_1), it.state) == (5, -1, "Empty")
    assert error_of(it.commit(4)) == "NONE"
    assert it.fetched() == 4, "a client may go back"


def test_the_empty_group_id_may_commit_but_not_join(it: It) -> None:
    assert error_of(it.commit(5, group="")) == "NONE"
    assert it.fetched(group="") == 5


def test_what_is_stored_is_what_kafka_stores(it: It) -> None:
    it.commit(5, metadata="here")
    [record] = it.stored()
    assert record.key == offset_key(GROUP, ORDERS_0)
    assert read_stored(record.key, record.value) == OffsetRecord(
        GROUP, ORDERS_0, OffsetAndMetadata(5, 2, "here", record.timestamp)
    )
    assert record.timestamp == pytest.approx(NOW_MS, abs=1_000)


def test_batches_are_compressed_as_configured() -> None:
    it = CoordinatorInVirtualTime({"offsets.topic.compression.codec": str(int(Compression.LZ4))})
    it.commit(5)
    log = it.partition().log
    [batch] = batches(log.read(0, 1 << 20, end_offset=log.log_end_offset))
    assert batch.header.compression is Compression.LZ4
    it.follow(leader_epoch=1)
    it.lead(leader_epoch=2)
    it.settle()
    assert it.fetched() == 5
    it.close()


def test_members_commit_in_their_generation(it: It) -> None:
    [only] = it.stable(1)
    assert error_of(it.commit(5, member_id=only, generation=1)) == "NONE"
    assert it.fetched() == 5


def test_a_commit_renews_the_session(it: It) -> None:
    [only] = it.stable(1)
    for offset in range(3):
        it.advance(9_999)
        assert error_of(it.commit(offset, member_id=only, generation=1)) == "NONE"


@pytest.mark.parametrize(
    ("who", "error"),
    [
        ({"member_id": "invented", "generation": 1}, "UNKNOWN_MEMBER_ID"),
        ({"generation": 7}, "ILLEGAL_GENERATION"),
        ({"generation": 0}, "ILLEGAL_GENERATION"),
        ({"generation": -1}, "ILLEGAL_GENERATION"),
        ({"member_id": "", "generation": -1}, "UNKNOWN_MEMBER_ID"),
        ({"instance": "i"}, "UNKNOWN_MEMBER_ID"),
    ],
)
def test_only_members_commit_in_a_group_that_has_members(it: It, who: dict[str, object], error: str) -> None:
    [only] = it.stable(1)
    asked: dict[str, object] = {"member_id": only, "generation": 1} | who
    assert error_of(it.commit(5, **asked)) == error  # type: ignore[arg-type]  # any argument of `commit`
    assert it.fetched() == -1


def test_a_generation_needs_a_group(it: It) -> None:
    assert error_of(it.commit(5, member_id="m", generation=1)) == "ILLEGAL_GENERATION"
    it.commit(5)
    assert error_of(it.commit(5, member_id="m", generation=1)) == "UNKNOWN_MEMBER_ID"


def test_members_commit_while_others_join_but_not_while_the_leader_assigns(it: It) -> None:
    leader, follower = it.stable(2)
    joining = it.join(leader)
    assert error_of(it.commit(5, member_id=follower, generation=1)) == "NONE"
    it.join(follower)
    assert joining.result().generation_id == 2
    assert error_of(it.commit(6, member_id=follower, generation=2)) == "REBALANCE_IN_PROGRESS"
    assert it.fetched() == 5


def test_oversized_metadata_is_refused_and_the_other_partitions_are_committed(it: It) -> None:
    offsets = {
        ORDERS_0: OffsetAndMetadata(1, metadata="x" * 4_097),
        ORDERS_1: OffsetAndMetadata(2, metadata="x" * 4_096),
    }
    asked = it.groups.commit_offsets(GROUP, member_id="", group_instance_id=None, generation_id=-1, offsets=offsets)
    assert it.run(asked) == {ORDERS_0: Errors.OFFSET_METADATA_TOO_LARGE, ORDERS_1: Errors.NONE}
    assert (it.fetched(ORDERS_0), it.fetched(ORDERS_1)) == (-1, 2)


def test_a_refused_commit_leaves_no_group_behind(it: It) -> None:
    assert error_of(it.commit(1, metadata="x" * 5_000)) == "OFFSET_METADATA_TOO_LARGE"
    assert it.manager_groups == {}


def test_a_commit_that_is_too_large_as_a_whole_is_refused(it: It) -> None:
    offsets = {TopicPartition("orders", each): OffsetAndMetadata(1, metadata="x" * 4_000) for each in range(300)}
    asked = it.groups.commit_offsets(GROUP, member_id="", group_instance_id=None, generation_id=-1, offsets=offsets)
    assert set(it.run(asked).values()) == {Errors.INVALID_COMMIT_OFFSET_SIZE}
    assert it.manager_groups == {}


# ------------------------------------------------------------------ replication


def test_an_offset_counts_when_it_is_replicated(replicated: It) -> None:
    it = replicated
    committing = it.commit(5)
    assert not committing.done()
    assert it.fetched() == -1
    assert it.fetched(stable=True) == "UNSTABLE_OFFSET_COMMIT"
    it.replicate()
    assert (error_of(committing), it.fetched(), it.fetched(stable=True)) == ("NONE", 5, 5)


def test_of_two_commits_at_once_the_later_one_counts(replicated: It) -> None:
    it = replicated
    commits = [it.commit(5), it.commit(6)]
    it.replicate()
    assert [error_of(each) for each in commits] == ["NONE", "NONE"]
    assert it.fetched() == 6


def test_a_commit_that_is_not_replicated_in_time_is_answered_so(replicated: It) -> None:
    it = replicated
    committing = it.commit(5)
    it.advance(5_000)
    assert (error_of(committing), it.fetched(), it.fetched(stable=True)) == ("REQUEST_TIMED_OUT", -1, -1)


def test_a_commit_at_a_coordinator_that_moves_is_sent_to_the_next_one(replicated: It) -> None:
    it = replicated
    committing = it.commit(5)
    it.follow(leader_epoch=1)
    assert error_of(committing) == "NOT_COORDINATOR"


@pytest.mark.parametrize(
    ("refused", "answered"),
    [
        (Errors.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
        (Errors.NOT_LEADER_OR_FOLLOWER, "NOT_COORDINATOR"),
        (Errors.KAFKA_STORAGE_ERROR, "NOT_COORDINATOR"),
        (Errors.RECORD_LIST_TOO_LARGE, "INVALID_COMMIT_OFFSET_SIZE"),
        (Errors.CORRUPT_MESSAGE, "CORRUPT_MESSAGE"),
    ],
)
def test_the_error_of_the_append_becomes_one_that_clients_know(
    it: It, monkeypatch: pytest.MonkeyPatch, refused: Errors, answered: str
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ApiError(refused, "a test")

    monkeypatch.setattr(it.replicas, "append_as_leader", refuse)
    assert error_of(it.commit(5)) == answered
    assert (it.fetched(), it.fetched(stable=True)) == (-1, -1)


def test_what_a_client_committed_before_its_connection_was_closed_is_committed(replicated: It) -> None:
    it = replicated
    committing = it.commit(5)
    committing.cancel()
    it.settle()
    assert it.fetched(stable=True) == "UNSTABLE_OFFSET_COMMIT"
    it.replicate()
    assert it.fetched(stable=True) == 5, "as it is in the log, where the next coordinator would find it"


def test_a_new_group_is_forgotten_where_its_commit_fails_after_the_connection_was_closed(replicated: It) -> None:
    it = replicated
    it.commit(5).cancel()
    it.advance(5_000)
    assert it.manager_groups == {}


# ------------------------------------------------------------------ expiry


def test_offsets_without_members_expire_a_week_after_the_last_one_left(it: It) -> None:
    [only] = it.stable(1)
    it.commit(5, member_id=only, generation=1)
    it.groups.leave_group(GROUP, [LeavingMember(only)])
    it.advance(A_WEEK_MS - 1_000)
    assert it.fetched() == 5
    it.advance(600_000)
    assert it.manager_groups == {}
    assert [(record.key, record.value) for record in it.stored()[-2:]] == [
        (offset_key(GROUP, ORDERS_0), None),
        (group_key(GROUP), None),
    ]


def test_a_group_that_never_had_members_leaves_no_tombstone_of_its_own(it: It) -> None:
    it.commit(5)
    it.advance(A_WEEK_MS + 600_000)
    assert [record.key for record in it.stored()] == [offset_key(GROUP, ORDERS_0)] * 2
    assert it.recorder.of("OffsetsRemoved") == [
        {"group": GROUP, "partition": 0, "offsets": [["orders", 0, 5]], "reason": "expired"}
    ]


def test_a_client_may_set_its_own_time_of_expiry(it: It) -> None:
    it.commit(5, expire_timestamp=NOW_MS + 60_000)
    it.advance(59_000)
    assert it.run(it.groups.manager.remove_expired()) == 0
    it.advance(1_001)
    assert it.run(it.groups.manager.remove_expired()) == 1


def test_expired_offsets_are_searched_for_regularly(it: It) -> None:
    it.commit(5)
    it.advance(A_WEEK_MS + 600_000)
    assert it.manager_groups == {}


# ------------------------------------------------------------------ deletion


def administration(it: It, action: str, *args: object) -> object:
    return getattr(it.groups.administration, action)(*args)


def test_an_empty_group_is_deleted_with_its_offsets(it: It) -> None:
    [only] = it.stable(1)
    it.commit(5, member_id=only, generation=1)
    assert administration(it, "delete_groups", [GROUP, "other"]) == {
        GROUP: Errors.NON_EMPTY_GROUP,
        "other": Errors.GROUP_ID_NOT_FOUND,
    }
    it.groups.leave_group(GROUP, [LeavingMember(only)])
    it.settle()
    assert administration(it, "delete_groups", [GROUP]) == {GROUP: Errors.NONE}
    assert it.manager_groups == {}
    assert {record.key for record in it.stored() if record.value is None} == {
        group_key(GROUP),
        offset_key(GROUP, ORDERS_0),
    }
    it.follow(leader_epoch=1)
    it.lead(leader_epoch=2)
    it.settle()
    assert (it.manager_groups, it.fetched()) == ({}, -1)


def test_deleted_offsets_do_not_come_back_with_a_new_group_of_the_name(it: It) -> None:
    it.commit(5)
    administration(it, "delete_groups", [GROUP])
    assert it.fetched() == -1
    it.commit(6, partition=ORDERS_1)
    assert (it.fetched(), it.fetched(ORDERS_1)) == (-1, 6)


def test_offsets_of_topics_without_subscription_are_deleted(it: It) -> None:
    bills = TopicPartition("bills", 0)
    it.commit(5)
    it.commit(6, partition=bills)
    it.stable(1)
    assert administration(it, "delete_offsets", GROUP, [ORDERS_0, bills]) == (
        Errors.NONE,
        {ORDERS_0: Errors.GROUP_SUBSCRIBED_TO_TOPIC, bills: Errors.NONE},
    )
    assert (it.fetched(), it.fetched(bills)) == (5, -1)


def test_offsets_of_a_group_of_another_type_stay_while_it_has_members(it: It) -> None:
    it.join(protocol_type="connect")
    it.advance(3_000)
    assert administration(it, "delete_offsets", GROUP, [ORDERS_0]) == (Errors.NON_EMPTY_GROUP, {})
    assert administration(it, "delete_offsets", "other", [ORDERS_0]) == (Errors.GROUP_ID_NOT_FOUND, {})
    assert administration(it, "delete_offsets", "", [ORDERS_0]) == (Errors.INVALID_GROUP_ID, {})


def test_the_last_offset_of_an_empty_group_takes_the_group_with_it(it: It) -> None:
    it.commit(5)
    administration(it, "delete_offsets", GROUP, [ORDERS_0])
    assert it.manager_groups == {}


@pytest.mark.spec("CO-5")
def test_offsets_of_a_deleted_topic_are_removed(it: It) -> None:
    it.commit(5)
    it.commit(6, partition=TopicPartition("bills", 0))
    it.commit(7, group="another")
    administration(it, "partitions_deleted", (ORDERS_0, ORDERS_1))
    assert (it.fetched(), it.fetched(TopicPartition("bills", 0))) == (-1, 6)
    assert "another" not in it.manager_groups


def test_a_topic_that_is_deleted_while_its_commit_is_pending_stays_without_offset(replicated: It) -> None:
    it = replicated
    committing = it.commit(5)
    administration(it, "partitions_deleted", (ORDERS_0,))
    it.replicate()
    assert (error_of(committing), it.fetched()) == ("NONE", -1)


# ------------------------------------------------------------------ listing and describing


def test_groups_are_listed_by_state_and_type(it: It) -> None:
    it.commit(5, group="simple")
    it.stable(1)

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
        error, groups = it.groups.administration.list_groups(states, types)
        assert error is Errors.NONE
        return [(each.group_id, each.protocol_type, each.state) for each in groups]

    simple, consumers = ("simple", "", "Empty"), (GROUP, "consumer", "Stable")
    assert listed() == [simple, consumers]
    assert listed(("STABLE", "Dead")) == [consumers]
    assert listed(("emptY",), ("Classic",)) == [simple]
    assert listed((), ("consumer",)) == []
    assert listed(("nonsense",)) == []


def test_groups_are_described(it: It) -> None:
    [only] = it.stable(1)
    error, summary = it.groups.administration.describe_group(GROUP)
    assert (error, summary.state, summary.protocol) == (Errors.NONE, "Stable", "range")
    [member] = summary.members
    assert (member.member_id, member.client_id, member.client_host) == (only, "client", "/127.0.0.1")
    assert it.groups.administration.describe_group("other")[1].state == "Dead"
    it.follow(leader_epoch=1)
    assert it.groups.administration.describe_group(GROUP) == (Errors.NOT_COORDINATOR, ("", "", "", ()))
