"""Tests of how records of groups share batches of `__consumer_offsets`, and of what each of them is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from tests.brokers.coordinator.group.parts import GROUP, ORDERS_0, ORDERS_1, CoordinatorHarness, assignment
from understudy.brokers.coordinator.group import group_writer
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_records import group_key, offset_key
from understudy.brokers.replication.replica_manager import Appended
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.records.record import records

Commit = asyncio.Task[dict[TopicPartition, Errors]]


def begin_commit(
    harness: CoordinatorHarness, group: str, offset: int, *, metadata: str = "", partition: TopicPartition = ORDERS_0
) -> Commit:
    """Send a commit with the others of this turn of the loop; what it leads to begins with `it.settle()`."""
    offsets = {partition: OffsetAndMetadata(offset, metadata=metadata)}
    return harness.loop.create_task(
        harness.groups.commit_offsets(group, member_id="", group_instance_id=None, generation_id=-1, offsets=offsets)
    )


def answers(commits: list[Commit]) -> list[str]:
    return [error.name for commit in commits for error in commit.result().values()]


def appended(harness: CoordinatorHarness) -> list[list[bytes]]:
    """The keys in each batch of the log."""
    log = harness.partition().log
    data = log.read(0, 1 << 30, end_offset=log.log_end_offset)
    return [[record.key or b"" for record in records(batch)] for batch in batches(data)]


def base_sequences(harness: CoordinatorHarness) -> list[int]:
    """The sequence number of each batch of the log."""
    log = harness.partition().log
    return [batch.header.base_sequence for batch in batches(log.read(0, 1 << 30, end_offset=log.log_end_offset))]


def keys(*groups: str) -> list[bytes]:
    return [offset_key(group, ORDERS_0) for group in groups]


def refuse(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch, refused: Callable[[int], Errors | None]
) -> None:
    """Refuse appends by their number; the first one is 0."""
    append, count = harness.replicas.append_as_leader, 0

    def judge(*args: object, **kwargs: object) -> Appended:
        nonlocal count
        error = refused(count)
        count += 1
        if error is not None:
            raise ApiError(error, "a test")
        return append(*args, **kwargs)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(harness.replicas, "append_as_leader", judge)


def test_the_commits_of_one_turn_are_one_batch_and_each_is_answered_when_it_is_replicated(
    replicated: CoordinatorHarness,
) -> None:
    harness = replicated
    commits = [begin_commit(harness, group, offset) for offset, group in enumerate(("a", "b", "c"))]
    harness.settle()
    assert appended(harness) == [keys("a", "b", "c")]
    assert base_sequences(harness) == [0], "as Kafka writes commits"
    assert not any(commit.done() for commit in commits)
    harness.replicate()
    assert answers(commits) == ["NONE"] * 3
    assert [harness.fetched(group=group) for group in "abc"] == [0, 1, 2]


def test_a_commit_alone_waits_for_no_other(harness: CoordinatorHarness) -> None:
    began = harness.loop.time()
    assert answers([harness.commit(5)]) == ["NONE"]
    assert harness.loop.time() - began == pytest.approx(0.000_001)
    harness.commit(6)
    assert appended(harness) == [keys(GROUP), keys(GROUP)]


def test_what_arrives_while_a_batch_is_replicated_makes_the_next_one(replicated: CoordinatorHarness) -> None:
    harness = replicated
    first = begin_commit(harness, "a", 1)
    harness.settle()
    later = [begin_commit(harness, "b", 2), begin_commit(harness, "c", 3)]
    harness.settle()
    assert appended(harness) == [keys("a"), keys("b", "c")]
    harness.replicate()
    assert answers([first, *later]) == ["NONE"] * 3


def test_of_two_commits_in_one_batch_the_later_one_counts(replicated: CoordinatorHarness) -> None:
    harness = replicated
    commits = [begin_commit(harness, GROUP, 7), begin_commit(harness, GROUP, 6)]
    harness.settle()
    harness.replicate()
    assert (answers(commits), harness.fetched()) == (["NONE", "NONE"], 6)
    harness.follow(leader_epoch=1)
    harness.lead(leader_epoch=2)
    harness.replicate()
    assert harness.fetched() == 6, "also for the next coordinator"
    assert [event["appended_at"] for event in harness.recorder.of("OffsetsCommitted")] == [0, 1]


def test_a_group_and_the_commits_of_others_share_a_batch(harness: CoordinatorHarness) -> None:
    joining = harness.join()
    harness.advance(3_001)
    leader = joining.result().member_id
    commit = begin_commit(harness, "other", 5)
    syncing = harness.sync(leader, 1, {leader: assignment(0)})
    assert (answers([commit]), syncing.result().error, harness.state) == (["NONE"], Errors.NONE, "Stable")
    assert appended(harness) == [[offset_key("other", ORDERS_0), group_key(GROUP)]]


@pytest.mark.parametrize(
    ("refused", "answered"),
    [
        (Errors.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
        (Errors.NOT_LEADER_OR_FOLLOWER, "NOT_COORDINATOR"),
        (Errors.KAFKA_STORAGE_ERROR, "NOT_COORDINATOR"),
    ],
)
def test_each_commit_of_a_refused_batch_is_answered(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch, refused: Errors, answered: str
) -> None:
    refuse(harness, monkeypatch, lambda number: refused if number == 0 else None)
    commits = [begin_commit(harness, group, 5) for group in ("a", "b")]
    harness.settle()
    assert (answers(commits), harness.manager_groups) == ([answered] * 2, {})
    assert answers([harness.commit(5)]) == ["NONE"], "the next batch is another one"


def test_each_commit_of_a_batch_that_is_not_replicated_in_time_is_answered(replicated: CoordinatorHarness) -> None:
    harness = replicated
    commits = [begin_commit(harness, group, 5) for group in ("a", "b")]
    harness.advance(5_000)
    assert (answers(commits), harness.manager_groups) == (["REQUEST_TIMED_OUT"] * 2, {})


def test_a_commit_that_is_too_large_does_not_take_the_others_with_it(harness: CoordinatorHarness) -> None:
    log = harness.partition().log
    log.use_config(msgspec.structs.replace(log.config, max_message_bytes=2_000))
    sizes = {"a": 500, "b": 3_000, "c": 500}
    commits = [begin_commit(harness, group, 5, metadata="x" * size) for group, size in sizes.items()]
    harness.settle()
    assert answers(commits) == ["NONE", "INVALID_COMMIT_OFFSET_SIZE", "NONE"]
    assert appended(harness) == [keys("a"), keys("c")]
    assert list(harness.manager_groups) == ["a", "c"]


def test_commits_that_are_too_large_together_are_appended_in_several_batches(harness: CoordinatorHarness) -> None:
    commits = [begin_commit(harness, f"group-{number}", 5, metadata="x" * 4_000) for number in range(300)]
    harness.settle()
    assert answers(commits) == ["NONE"] * 300
    found = appended(harness)
    assert [key for batch in found for key in batch] == keys(*(f"group-{number}" for number in range(300)))
    assert len(found) == 3, "1.2 MB, 500,000 bytes at a time"


def test_tombstones_follow_what_was_written_before_them(harness: CoordinatorHarness) -> None:
    harness.commit(5)
    commit = begin_commit(harness, GROUP, 6)

    async def delete() -> None:
        harness.groups.administration.delete_groups([GROUP])

    harness.loop.create_task(delete())
    harness.settle()
    assert [record.value is None for record in harness.stored()] == [False, False, True]
    assert answers([commit]) == ["NONE"], "it was stored, and then deleted"
    harness.follow(leader_epoch=1)
    harness.lead(leader_epoch=2)
    harness.settle()
    assert harness.fetched() == -1


def test_a_partition_that_is_led_no_more_takes_nothing_of_this_turn(harness: CoordinatorHarness) -> None:
    commits = [begin_commit(harness, "a", 5), begin_commit(harness, "b", 5)]

    async def resign_and_come_back() -> None:
        harness.groups.resigned(0, 1)
        harness.groups.elected(0, 2)

    harness.loop.create_task(resign_and_come_back())
    harness.settle()
    assert (answers(commits), harness.stored()) == (["NOT_COORDINATOR"] * 2, [])


def test_a_storm_of_commits_waits_in_bounded_memory(
    replicated: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = replicated
    monkeypatch.setattr(group_writer, "MOST_WAITING_BYTES", 10_000)
    commits = [begin_commit(harness, f"group-{number}", 5, metadata="x" * 1_000) for number in range(50)]
    harness.settle()
    refused = [commit for commit in commits if commit.done()]
    assert set(answers(refused)) == {"COORDINATOR_LOAD_IN_PROGRESS"}, "Kafka's clients send it again after a while"
    assert 38 <= len(refused) <= 41
    assert len(harness.manager_groups) == 50 - len(refused), "a refused commit leaves no group"
    harness.replicate()
    assert sum(answers([commit]) == ["NONE"] for commit in commits) == 50 - len(refused)
    assert answers([begin_and_replicate(harness)]) == ["NONE"], "there is room again"


def begin_and_replicate(harness: CoordinatorHarness) -> Commit:
    commit = begin_commit(harness, "later", 5, partition=ORDERS_1)
    harness.settle()
    harness.replicate()
    return commit
