"""Tests of the cache of fetch sessions: session ids and epochs, forgotten and changed partitions, eviction."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tests.brokers.parts import StillClock
from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.brokers.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MAX_INT32,
    Found,
    Key,
    Requested,
    RequestedPartition,
    next_epoch,
)
from understudy.brokers.replication.fetch_session_cache import EVICTION_MS, FetchContext, FetchSessionCache
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.wire.messages.fetch import EpochEndOffset, FetchPartition, PartitionData

CONSUMER, FOLLOWER = -1, 2
ORDERS_ID, OTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), TopicId("AAAAAAAAAAAAAAAAAAAAAg")
NAMES = {ORDERS_ID: "orders"}
BY_NAME, BY_ID = 12, 13


def by_name(*partitions: int, offset: int = 0) -> Requested:
    return {
        ("orders", index): RequestedPartition(
            TopicPartition("orders", index), NO_TOPIC_ID, FetchPartition(partition=index, fetch_offset=offset)
        )
        for index in partitions
    }


def by_id(*partitions: int, topic_id: TopicId = ORDERS_ID, name: str | None = "orders") -> Requested:
    return {
        (topic_id, index): RequestedPartition(
            None if name is None else TopicPartition(name, index), topic_id, FetchPartition(partition=index)
        )
        for index in partitions
    }


def nothing_new(requested: Iterable[Key], high_watermark: int = 0) -> Found:
    """The data that is found if no partition has records."""
    return {key: PartitionData(partition_index=key[1], high_watermark=high_watermark) for key in requested}


class CacheHarness:
    """A cache with a clock that stands."""

    def __init__(self, max_sessions: int = 2) -> None:
        self.clock = StillClock(10_000.0)
        self.purgatory = DelayedOperationPurgatory()
        self.cache = FetchSessionCache(
            max_sessions, purgatory=self.purgatory, clock=self.clock, random=random.Random(7)
        )

    def begin(
        self,
        session_id: int,
        epoch: int,
        named: Requested | None = None,
        *,
        version: int = BY_NAME,
        follower: int = CONSUMER,
        forgotten: Iterable[Key] = (),
    ) -> FetchContext | Errors:
        return self.cache.begin(
            session_id,
            epoch,
            version=version,
            follower=follower,
            named=named or {},
            forgotten=forgotten,
            names=NAMES,
        )

    def fetch(
        self,
        session_id: int,
        epoch: int,
        named: Requested | None = None,
        *,
        version: int = BY_NAME,
        follower: int = CONSUMER,
        forgotten: Iterable[Key] = (),
    ) -> tuple[Errors, int, list[Key]]:
        """A Fetch that finds no records: its error, session id, and the partitions in its answer."""
        begun = self.begin(session_id, epoch, named, version=version, follower=follower, forgotten=forgotten)
        if isinstance(begun, Errors):
            return begun, 0, []
        error, answered_id, answered = begun.answer(nothing_new(begun.requested))
        return error, answered_id, list(answered)

    def open(self, *partitions: int, follower: int = CONSUMER) -> int:
        """Open a session; return its id, 0 if there was no room."""
        _, session_id, _ = self.fetch(0, INITIAL_EPOCH, by_name(*partitions), follower=follower)
        return session_id


# ------------------------------------------------------------------ ids and epochs


def test_epochs_go_round_and_leave_out_those_with_a_meaning() -> None:
    assert [next_epoch(epoch) for epoch in (INITIAL_EPOCH, 1, MAX_INT32, FINAL_EPOCH)] == [1, 2, 1, FINAL_EPOCH]


def test_request_that_opens_a_session_is_answered_with_its_id_and_all_partitions() -> None:
    harness = CacheHarness()
    error, session_id, answered = harness.fetch(0, INITIAL_EPOCH, by_name(0, 1))
    assert (error, answered) == (Errors.NONE, [("orders", 0), ("orders", 1)])
    assert 1 <= session_id < MAX_INT32
    assert (len(harness.cache), harness.cache.partitions) == (1, 2)


def test_request_that_wants_no_session_gets_none() -> None:
    harness = CacheHarness()
    assert harness.fetch(0, FINAL_EPOCH, by_name(0)) == (Errors.NONE, 0, [("orders", 0)])
    assert len(harness.cache) == 0


def test_answers_name_only_partitions_that_have_changed() -> None:
    harness = CacheHarness()
    session_id = harness.open(0, 1)
    assert harness.fetch(session_id, 1) == (Errors.NONE, session_id, [])
    begun = harness.begin(session_id, 2)
    assert isinstance(begun, FetchContext)
    assert list(begun.requested) == [("orders", 0), ("orders", 1)], "of a consumer all partitions are read"
    found = nothing_new(begun.requested)
    found["orders", 1] = PartitionData(partition_index=1, high_watermark=4)
    assert begun.answer(found) == (Errors.NONE, session_id, {("orders", 1): found["orders", 1]})
    begun = harness.begin(session_id, 3)
    assert isinstance(begun, FetchContext)
    assert begun.answer(found) == (Errors.NONE, session_id, {}), "the high watermark is known by now"


@pytest.mark.parametrize(
    "data",
    [
        PartitionData(high_watermark=1),
        PartitionData(log_start_offset=1),
        PartitionData(records=b"batch"),
        PartitionData(error_code=Errors.NOT_LEADER_OR_FOLLOWER),
        PartitionData(preferred_read_replica=2),
        PartitionData(diverging_epoch=EpochEndOffset(epoch=0, end_offset=0)),
    ],
)
def test_what_makes_a_partition_part_of_the_answer(data: PartitionData) -> None:
    harness = CacheHarness()
    begun = harness.begin(harness.open(0), 1)
    assert isinstance(begun, FetchContext)
    _, _, answered = begun.answer({("orders", 0): data})
    assert list(answered) == [("orders", 0)]


def test_partition_is_named_again_when_its_error_is_gone() -> None:
    harness = CacheHarness()
    session_id = harness.open(0)
    begun = harness.begin(session_id, 1)
    assert isinstance(begun, FetchContext)
    begun.answer({("orders", 0): PartitionData(error_code=Errors.NOT_LEADER_OR_FOLLOWER)})
    assert harness.fetch(session_id, 2) == (Errors.NONE, session_id, [("orders", 0)])


def test_partition_with_records_comes_last_in_the_next_fetch() -> None:
    harness = CacheHarness()
    session_id = harness.open(0, 1, 2)
    begun = harness.begin(session_id, 1)
    assert isinstance(begun, FetchContext)
    found = nothing_new(begun.requested)
    found["orders", 0] = PartitionData(records=b"batch")
    begun.answer(found)
    begun = harness.begin(session_id, 2)
    assert isinstance(begun, FetchContext)
    assert [index for _, index in begun.requested] == [1, 2, 0]


@pytest.mark.parametrize(
    ("session_id_differs", "epoch", "version", "error"),
    [
        (True, 1, BY_NAME, Errors.FETCH_SESSION_ID_NOT_FOUND),
        (False, 2, BY_NAME, Errors.INVALID_FETCH_SESSION_EPOCH),
        (False, MAX_INT32, BY_NAME, Errors.INVALID_FETCH_SESSION_EPOCH),
        (False, 1, BY_ID, Errors.FETCH_SESSION_TOPIC_ID_ERROR),
        (False, 1, BY_NAME, Errors.NONE),
    ],
)
def test_request_that_does_not_fit_the_session_is_refused(
    session_id_differs: bool, epoch: int, version: int, error: Errors
) -> None:
    harness = CacheHarness()
    session_id = harness.open(0)
    assert harness.fetch(session_id + session_id_differs, epoch, version=version)[0] is error
    if error is not Errors.NONE:
        assert harness.fetch(session_id, 1)[0] is Errors.NONE, "the refusal has not changed the session"


def test_request_sent_twice_is_refused_the_second_time() -> None:
    harness = CacheHarness()
    session_id = harness.open(0)
    assert harness.fetch(session_id, 1)[0] is Errors.NONE
    assert harness.fetch(session_id, 1)[0] is Errors.INVALID_FETCH_SESSION_EPOCH


def test_answer_that_comes_after_a_later_request_of_the_session_is_an_error() -> None:
    harness = CacheHarness()
    session_id = harness.open(0)
    waiting = harness.begin(session_id, 1)
    assert isinstance(waiting, FetchContext)
    superseded = [waiting.is_superseded]
    assert harness.fetch(session_id, 2)[0] is Errors.NONE
    assert [*superseded, waiting.is_superseded] == [False, True]
    assert waiting.answer(nothing_new(waiting.requested)) == (Errors.INVALID_FETCH_SESSION_EPOCH, session_id, {})


@pytest.mark.parametrize(("epoch", "sessions"), [(INITIAL_EPOCH, 1), (FINAL_EPOCH, 0)])
def test_full_request_closes_the_session_that_it_names(epoch: int, sessions: int) -> None:
    harness = CacheHarness()
    session_id = harness.open(0)
    assert harness.fetch(session_id, epoch, by_name(0))[1] != session_id
    assert harness.fetch(session_id, 1)[0] is Errors.FETCH_SESSION_ID_NOT_FOUND
    assert len(harness.cache) == sessions


# ------------------------------------------------------------------ partitions


def test_partitions_are_added_and_forgotten() -> None:
    harness = CacheHarness()
    session_id = harness.open(0, 1)
    answered = harness.fetch(session_id, 1, by_name(2), forgotten=[("orders", 0), ("orders", 9)])
    assert answered == (Errors.NONE, session_id, [("orders", 2)])
    session = harness.cache.get(session_id)
    assert session is not None
    assert [index for _, index in session.partitions] == [1, 2]
    assert harness.cache.partitions == 2


def test_session_without_partitions_is_closed() -> None:
    harness = CacheHarness()
    session_id = harness.open(0)
    assert harness.fetch(session_id, 1, forgotten=[("orders", 0)]) == (Errors.NONE, 0, [])
    assert (len(harness.cache), harness.cache.partitions, harness.purgatory.watched) == (0, 0, 0)


def test_topic_whose_id_was_unknown_is_resolved_later_and_keeps_its_name() -> None:
    harness = CacheHarness()
    _, session_id, _ = harness.fetch(0, INITIAL_EPOCH, by_id(0, name=None), version=BY_ID, follower=FOLLOWER)
    begun = harness.begin(session_id, 1, version=BY_ID, follower=FOLLOWER)
    assert isinstance(begun, FetchContext)
    assert begun.requested[ORDERS_ID, 0].topic_partition == TopicPartition("orders", 0)
    assert harness.purgatory.watched == 1
    # The topic is deleted, and its id no longer known.
    begun = harness.begin(session_id, 2, by_id(0, name=None), version=BY_ID, follower=FOLLOWER)
    assert isinstance(begun, FetchContext)
    assert begun.requested[ORDERS_ID, 0].topic_partition == TopicPartition("orders", 0)
    assert harness.purgatory.watched == 1


def test_partition_of_a_topic_with_another_id_replaces_the_former_one() -> None:
    harness = CacheHarness()
    _, session_id, _ = harness.fetch(0, INITIAL_EPOCH, by_id(0), version=BY_ID, follower=FOLLOWER)
    error, _, answered = harness.fetch(
        session_id, 1, by_id(0, topic_id=OTHER_ID), version=BY_ID, follower=FOLLOWER, forgotten=[(ORDERS_ID, 0)]
    )
    assert (error, answered) == (Errors.NONE, [(OTHER_ID, 0)])
    assert harness.purgatory.watched == 1, "both have one name"
    session = harness.cache.get(session_id)
    assert session is not None
    session.settle((OTHER_ID, 0))
    harness.purgatory.check_and_complete([TopicPartition("orders", 0)])
    assert session.unsettled == {(OTHER_ID, 0)}


# ------------------------------------------------------------------ changes


def test_fetch_of_a_follower_reads_only_what_is_not_settled() -> None:
    harness = CacheHarness()
    session_id = harness.open(0, 1, 2, 3, follower=FOLLOWER)
    session = harness.cache.get(session_id)
    assert session is not None
    assert len(session.unsettled) == 4, "nothing has been read in the session yet"
    for index in range(4):
        session.settle(("orders", index))
    harness.purgatory.check_and_complete([TopicPartition("orders", 2), TopicPartition("other", 0)])
    begun = harness.begin(session_id, 1, by_name(1, offset=5), follower=FOLLOWER)
    assert isinstance(begun, FetchContext)
    assert list(begun.requested) == [("orders", 1), ("orders", 2)]
    assert begun.requested["orders", 1].fetch.fetch_offset == 5
    begun.answer(nothing_new(begun.requested))
    begun = harness.begin(session_id, 2, follower=FOLLOWER)
    assert isinstance(begun, FetchContext)
    assert list(begun.requested) == [("orders", 1), ("orders", 2)], "they stay unsettled until they are settled"


def test_a_partition_that_is_named_late_is_unsettled_by_a_change_since_then() -> None:
    harness = CacheHarness()
    unnamed = by_id(0, name=None)
    _, session_id, _ = harness.fetch(0, INITIAL_EPOCH, unnamed, version=BY_ID, follower=FOLLOWER)
    assert harness.purgatory.watched == 0
    harness.fetch(session_id, 1, by_id(0), version=BY_ID, follower=FOLLOWER)
    session = harness.cache.get(session_id)
    assert session is not None
    assert harness.purgatory.watched == 1
    session.settle((ORDERS_ID, 0))
    harness.purgatory.check_and_complete([TopicPartition("orders", 0)])
    assert session.unsettled == {(ORDERS_ID, 0)}


def test_closed_session_watches_no_partition() -> None:
    harness = CacheHarness(max_sessions=1)
    session_id = harness.open(0, 1, follower=FOLLOWER)
    assert harness.purgatory.watched == 2
    waiting = harness.begin(session_id, 1, follower=FOLLOWER)
    assert isinstance(waiting, FetchContext)
    harness.open(0, 1, 2, follower=3)
    assert not waiting.is_superseded, "a follower's session of this age is not evicted"
    harness.clock.now_ms += EVICTION_MS + 1
    harness.open(0, 1, 2, follower=3)
    assert (waiting.is_superseded, harness.purgatory.watched) == (True, 3)


def test_follower_gets_no_session_where_the_purgatory_has_no_room() -> None:
    harness = CacheHarness()
    harness.cache = FetchSessionCache(
        2, purgatory=DelayedOperationPurgatory(max_watched=1), clock=harness.clock, random=random.Random(7)
    )
    assert harness.open(0, 1, follower=FOLLOWER) == 0
    assert harness.open(0, follower=FOLLOWER) != 0


# ------------------------------------------------------------------ eviction


def test_without_slots_there_are_no_sessions() -> None:
    assert CacheHarness(max_sessions=0).open(0) == 0


def test_session_of_a_consumer_does_not_evict_one_in_use() -> None:
    harness = CacheHarness()
    harness.clock.now_ms += EVICTION_MS  # the age of a session counts, not the broker's
    first, second = harness.open(0), harness.open(0)
    assert 0 not in (first, second)
    assert harness.open(0, 1, 2) == 0
    assert harness.cache.evictions.count == 0


def test_idle_session_is_evicted_and_the_one_used_longest_ago_first() -> None:
    harness = CacheHarness()
    first, second = harness.open(0), harness.open(0)
    harness.clock.now_ms += EVICTION_MS
    assert harness.open(0) == 0, "not before the time is over"
    harness.fetch(first, 1)
    harness.clock.now_ms += 1
    assert harness.open(0) != 0
    assert (harness.cache.get(first) is not None, harness.cache.get(second)) == (True, None)
    assert harness.cache.evictions.count == 1


def test_follower_evicts_a_consumers_session_at_once_and_the_smallest_first() -> None:
    harness = CacheHarness()
    large, small = harness.open(0, 1, 2), harness.open(0)
    assert harness.open(0, follower=FOLLOWER) != 0
    assert (harness.cache.get(large) is not None, harness.cache.get(small)) == (True, None)
    assert harness.open(0, follower=3) != 0
    assert harness.cache.get(large) is None
    assert harness.open(*range(9), follower=4) == 0, "young sessions of followers stay"


def test_old_session_gives_way_to_a_larger_one_only() -> None:
    harness = CacheHarness(max_sessions=1)
    old = harness.open(0, 1)
    harness.clock.now_ms += EVICTION_MS
    harness.fetch(old, 1)
    harness.clock.now_ms += 1
    harness.fetch(old, 2)
    assert harness.open(0) == 0
    assert harness.open(0, 1) == 0, "not to one of the same size"
    assert harness.open(0, 1, 2) != 0
    assert harness.cache.get(old) is None


def test_consumer_never_evicts_a_follower_that_is_in_use() -> None:
    harness = CacheHarness(max_sessions=1)
    session_id = harness.open(0, follower=FOLLOWER)
    harness.clock.now_ms += EVICTION_MS
    harness.fetch(session_id, 1, follower=FOLLOWER)
    harness.clock.now_ms += 1
    harness.fetch(session_id, 2, follower=FOLLOWER)
    assert harness.open(*range(9)) == 0
