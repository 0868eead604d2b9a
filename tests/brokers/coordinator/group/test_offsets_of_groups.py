"""Tests of OffsetCommit and OffsetFetch at the coordinator, and of how offsets are stored, expire and are deleted."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.coordinator.group.parts import (
    GROUP,
    NOW_MS,
    ORDERS_0,
    ORDERS_1,
    CoordinatorHarness,
)
from understudy.brokers.coordinator.group.group_coordinator import LeavingMember
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_records import OffsetRecord, group_key, offset_key, read_stored
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.records.compression import Compression
from understudy.foundation.wire.messages.describe_groups import DescribedGroup

A_WEEK_MS = 7 * 24 * 3_600_000


def error_of(committing: asyncio.Task[dict[TopicPartition, Errors]]) -> str:
    [error] = committing.result().values()
    return error.name


# ------------------------------------------------------------------ commits


def test_a_client_without_a_group_commits_and_fetches(harness: CoordinatorHarness) -> None:
    assert harness.fetched() == -1
    assert error_of(harness.commit(5)) == "NONE"
    assert (harness.fetched(), harness.fetched(ORDERS_1), harness.state) == (5, -1, "Empty")
    assert error_of(harness.commit(4)) == "NONE"
    assert harness.fetched() == 4, "a client may go back"


def test_the_empty_group_id_may_commit_but_not_join(harness: CoordinatorHarness) -> None:
    assert error_of(harness.commit(5, group="")) == "NONE"
    assert harness.fetched(group="") == 5


def test_what_is_stored_is_what_kafka_stores(harness: CoordinatorHarness) -> None:
    harness.commit(5, metadata="here")
    [record] = harness.stored()
    assert record.key == offset_key(GROUP, ORDERS_0)
    assert read_stored(record.key, record.value) == OffsetRecord(
        GROUP, ORDERS_0, OffsetAndMetadata(5, 2, "here", record.timestamp)
    )
    assert record.timestamp == pytest.approx(NOW_MS, abs=1_000)


def test_batches_are_compressed_as_configured() -> None:
    harness = CoordinatorHarness({"offsets.topic.compression.codec": str(int(Compression.LZ4))})
    harness.commit(5)
    log = harness.partition().log
    [batch] = batches(log.read(0, 1 << 20, end_offset=log.log_end_offset))
    assert batch.header.compression is Compression.LZ4
    harness.follow(leader_epoch=1)
    harness.lead(leader_epoch=2)
    harness.settle()
    assert harness.fetched() == 5
    harness.close()


def test_members_commit_in_their_generation(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    assert error_of(harness.commit(5, member_id=only, generation=1)) == "NONE"
    assert harness.fetched() == 5


def test_a_commit_renews_the_session(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    for offset in range(3):
        harness.advance(9_999)
        assert error_of(harness.commit(offset, member_id=only, generation=1)) == "NONE"


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
def test_only_members_commit_in_a_group_that_has_members(
    harness: CoordinatorHarness, who: dict[str, object], error: str
) -> None:
    [only] = harness.stable(1)
    asked: dict[str, object] = {"member_id": only, "generation": 1} | who
    assert error_of(harness.commit(5, **asked)) == error  # type: ignore[arg-type]  # any argument of `commit`
    assert harness.fetched() == -1


def test_a_generation_needs_a_group(harness: CoordinatorHarness) -> None:
    assert error_of(harness.commit(5, member_id="m", generation=1)) == "ILLEGAL_GENERATION"
    harness.commit(5)
    assert error_of(harness.commit(5, member_id="m", generation=1)) == "UNKNOWN_MEMBER_ID"


def test_members_commit_while_others_join_but_not_while_the_leader_assigns(harness: CoordinatorHarness) -> None:
    leader, follower = harness.stable(2)
    joining = harness.join(leader)
    assert error_of(harness.commit(5, member_id=follower, generation=1)) == "NONE"
    harness.join(follower)
    assert joining.result().generation_id == 2
    assert error_of(harness.commit(6, member_id=follower, generation=2)) == "REBALANCE_IN_PROGRESS"
    assert harness.fetched() == 5


def test_oversized_metadata_is_refused_and_the_other_partitions_are_committed(harness: CoordinatorHarness) -> None:
    offsets = {
        ORDERS_0: OffsetAndMetadata(1, metadata="x" * 4_097),
        ORDERS_1: OffsetAndMetadata(2, metadata="x" * 4_096),
    }
    asked = harness.groups.commit_offsets(
        GROUP, member_id="", group_instance_id=None, generation_id=-1, offsets=offsets
    )
    assert harness.run(asked) == {ORDERS_0: Errors.OFFSET_METADATA_TOO_LARGE, ORDERS_1: Errors.NONE}
    assert (harness.fetched(ORDERS_0), harness.fetched(ORDERS_1)) == (-1, 2)


def test_a_refused_commit_leaves_no_group_behind(harness: CoordinatorHarness) -> None:
    assert error_of(harness.commit(1, metadata="x" * 5_000)) == "OFFSET_METADATA_TOO_LARGE"
    assert harness.manager_groups == {}


def test_a_commit_that_is_too_large_as_a_whole_is_refused(harness: CoordinatorHarness) -> None:
    offsets = {TopicPartition("orders", each): OffsetAndMetadata(1, metadata="x" * 4_000) for each in range(300)}
    asked = harness.groups.commit_offsets(
        GROUP, member_id="", group_instance_id=None, generation_id=-1, offsets=offsets
    )
    assert set(harness.run(asked).values()) == {Errors.INVALID_COMMIT_OFFSET_SIZE}
    assert harness.manager_groups == {}


# ------------------------------------------------------------------ replication


def test_an_offset_counts_when_it_is_replicated(replicated: CoordinatorHarness) -> None:
    harness = replicated
    committing = harness.commit(5)
    assert not committing.done()
    assert harness.fetched() == -1
    assert harness.fetched(stable=True) == "UNSTABLE_OFFSET_COMMIT"
    harness.replicate()
    assert (error_of(committing), harness.fetched(), harness.fetched(stable=True)) == ("NONE", 5, 5)


def test_of_two_commits_at_once_the_later_one_counts(replicated: CoordinatorHarness) -> None:
    harness = replicated
    commits = [harness.commit(5), harness.commit(6)]
    harness.replicate()
    assert [error_of(each) for each in commits] == ["NONE", "NONE"]
    assert harness.fetched() == 6


def test_a_commit_that_is_not_replicated_in_time_is_answered_so(replicated: CoordinatorHarness) -> None:
    harness = replicated
    committing = harness.commit(5)
    harness.advance(5_000)
    assert (error_of(committing), harness.fetched(), harness.fetched(stable=True)) == ("REQUEST_TIMED_OUT", -1, -1)


def test_a_commit_at_a_coordinator_that_moves_is_sent_to_the_next_one(replicated: CoordinatorHarness) -> None:
    harness = replicated
    committing = harness.commit(5)
    harness.follow(leader_epoch=1)
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
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch, refused: Errors, answered: str
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ApiError(refused, "a test")

    monkeypatch.setattr(harness.replicas, "append_as_leader", refuse)
    assert error_of(harness.commit(5)) == answered
    assert (harness.fetched(), harness.fetched(stable=True)) == (-1, -1)


def test_what_a_client_committed_before_its_connection_was_closed_is_committed(replicated: CoordinatorHarness) -> None:
    harness = replicated
    committing = harness.commit(5)
    committing.cancel()
    harness.settle()
    assert harness.fetched(stable=True) == "UNSTABLE_OFFSET_COMMIT"
    harness.replicate()
    assert harness.fetched(stable=True) == 5, "as it is in the log, where the next coordinator would find it"


def test_a_new_group_is_forgotten_where_its_commit_fails_after_the_connection_was_closed(
    replicated: CoordinatorHarness,
) -> None:
    harness = replicated
    harness.commit(5).cancel()
    harness.advance(5_000)
    assert harness.manager_groups == {}


# ------------------------------------------------------------------ expiry


def test_offsets_without_members_expire_a_week_after_the_last_one_left(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    harness.commit(5, member_id=only, generation=1)
    harness.groups.leave_group(GROUP, [LeavingMember(only)])
    harness.advance(A_WEEK_MS - 1_000)
    assert harness.fetched() == 5
    harness.advance(600_000)
    assert harness.manager_groups == {}
    assert [(record.key, record.value) for record in harness.stored()[-2:]] == [
        (offset_key(GROUP, ORDERS_0), None),
        (group_key(GROUP), None),
    ]


def test_a_group_that_never_had_members_leaves_no_tombstone_of_its_own(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.advance(A_WEEK_MS + 600_000)
    assert [record.key for record in harness.stored()] == [offset_key(GROUP, ORDERS_0)] * 2
    assert harness.recorder.of("OffsetsRemoved") == [
        {"group": GROUP, "partition": 0, "offsets": [["orders", 0, 5]], "reason": "expired"}
    ]


def test_a_client_may_set_its_own_time_of_expiry(harness: CoordinatorHarness) -> None:
    harness.commit(5, expire_timestamp=NOW_MS + 60_000)
    harness.advance(59_000)
    assert harness.run(harness.groups.manager.remove_expired()) == 0
    harness.advance(1_001)
    assert harness.run(harness.groups.manager.remove_expired()) == 1


def test_expired_offsets_are_searched_for_regularly(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.advance(A_WEEK_MS + 600_000)
    assert harness.manager_groups == {}


# ------------------------------------------------------------------ deletion


def administration(harness: CoordinatorHarness, action: str, *args: object) -> object:
    return getattr(harness.groups.administration, action)(*args)


def test_an_empty_group_is_deleted_with_its_offsets(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    harness.commit(5, member_id=only, generation=1)
    assert administration(harness, "delete_groups", [GROUP, "other"]) == {
        GROUP: Errors.NON_EMPTY_GROUP,
        "other": Errors.GROUP_ID_NOT_FOUND,
    }
    harness.groups.leave_group(GROUP, [LeavingMember(only)])
    harness.settle()
    assert administration(harness, "delete_groups", [GROUP]) == {GROUP: Errors.NONE}
    assert harness.manager_groups == {}
    assert {record.key for record in harness.stored() if record.value is None} == {
        group_key(GROUP),
        offset_key(GROUP, ORDERS_0),
    }
    harness.follow(leader_epoch=1)
    harness.lead(leader_epoch=2)
    harness.settle()
    assert (harness.manager_groups, harness.fetched()) == ({}, -1)


def test_deleted_offsets_do_not_come_back_with_a_new_group_of_the_name(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    administration(harness, "delete_groups", [GROUP])
    assert harness.fetched() == -1
    harness.commit(6, partition=ORDERS_1)
    assert (harness.fetched(), harness.fetched(ORDERS_1)) == (-1, 6)


def test_offsets_of_topics_without_subscription_are_deleted(harness: CoordinatorHarness) -> None:
    bills = TopicPartition("bills", 0)
    harness.commit(5)
    harness.commit(6, partition=bills)
    harness.stable(1)
    assert administration(harness, "delete_offsets", GROUP, [ORDERS_0, bills]) == (
        Errors.NONE,
        {ORDERS_0: Errors.GROUP_SUBSCRIBED_TO_TOPIC, bills: Errors.NONE},
    )
    assert (harness.fetched(), harness.fetched(bills)) == (5, -1)


def test_offsets_of_a_group_of_another_type_stay_while_it_has_members(harness: CoordinatorHarness) -> None:
    harness.join(protocol_type="connect")
    harness.advance(3_000)
    assert administration(harness, "delete_offsets", GROUP, [ORDERS_0]) == (Errors.NON_EMPTY_GROUP, {})
    assert administration(harness, "delete_offsets", "other", [ORDERS_0]) == (Errors.GROUP_ID_NOT_FOUND, {})
    assert administration(harness, "delete_offsets", "", [ORDERS_0]) == (Errors.INVALID_GROUP_ID, {})


def test_the_last_offset_of_an_empty_group_takes_the_group_with_it(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    administration(harness, "delete_offsets", GROUP, [ORDERS_0])
    assert harness.manager_groups == {}


@pytest.mark.spec("CO-5")
def test_offsets_of_a_deleted_topic_are_removed(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    harness.commit(6, partition=TopicPartition("bills", 0))
    harness.commit(7, group="another")
    administration(harness, "partitions_deleted", (ORDERS_0, ORDERS_1))
    assert (harness.fetched(), harness.fetched(TopicPartition("bills", 0))) == (-1, 6)
    assert "another" not in harness.manager_groups


def test_a_topic_that_is_deleted_while_its_commit_is_pending_stays_without_offset(
    replicated: CoordinatorHarness,
) -> None:
    harness = replicated
    committing = harness.commit(5)
    administration(harness, "partitions_deleted", (ORDERS_0,))
    harness.replicate()
    assert (error_of(committing), harness.fetched()) == ("NONE", -1)


# ------------------------------------------------------------------ listing and describing


def test_groups_are_listed_by_state_and_type(harness: CoordinatorHarness) -> None:
    harness.commit(5, group="simple")
    harness.stable(1)

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str, str]]:
        error, groups = harness.groups.administration.list_groups(states, types)
        assert error is Errors.NONE
        return [(each.group_id, each.protocol_type, each.group_state) for each in groups]

    simple, consumers = ("simple", "", "Empty"), (GROUP, "consumer", "Stable")
    assert listed() == [simple, consumers]
    assert listed(("STABLE", "Dead")) == [consumers]
    assert listed(("emptY",), ("Classic",)) == [simple]
    assert listed((), ("consumer",)) == []
    assert listed(("nonsense",)) == []


def test_groups_are_described(harness: CoordinatorHarness) -> None:
    [only] = harness.stable(1)
    group = harness.groups.administration.describe_group(GROUP)
    assert (group.error_code, group.group_state, group.protocol_data) == (Errors.NONE, "Stable", "range")
    [member] = group.members
    assert (member.member_id, member.client_id, member.client_host) == (only, "client", "/127.0.0.1")
    assert harness.groups.administration.describe_group("other").group_state == "Dead"
    harness.follow(leader_epoch=1)
    refused = DescribedGroup(error_code=Errors.NOT_COORDINATOR, group_id=GROUP)
    assert harness.groups.administration.describe_group(GROUP) == refused
