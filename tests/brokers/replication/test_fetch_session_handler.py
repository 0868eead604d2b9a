"""Tests of the follower's side of a fetch session, alone and in histories with the leader's side and lost answers."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from tests.brokers.parts import StillClock
from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.brokers.replication.fetch_session import INITIAL_EPOCH, Requested, RequestedPartition
from understudy.brokers.replication.fetch_session_cache import FetchSessionCache
from understudy.brokers.replication.fetch_session_handler import FetchedPartition, FetchRequestData, FetchSessionHandler
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchResponse,
    PartitionData,
)

A_ID, B_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAQ"), TopicId("AAAAAAAAAAAAAAAAAAAAAg")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BY_ID = 17


def fetched(partition: int = 0, offset: int = 0, topic_id: TopicId = A_ID) -> FetchedPartition:
    return FetchedPartition(topic_id, FetchPartition(partition=partition, fetch_offset=offset))


def answer(session_id: int, *partitions: int, topic_id: TopicId = A_ID, topic: str = "") -> FetchResponse:
    data = tuple(PartitionData(partition_index=partition) for partition in partitions)
    responses = (FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=data),) if data else ()
    return FetchResponse(session_id=session_id, responses=responses)


def opened(session_id: int = 7) -> FetchSessionHandler:
    """A handler whose session has both partitions of a."""
    handler = FetchSessionHandler(1)
    handler.build({A0: fetched(), A1: fetched(1)})
    assert handler.handle_response(answer(session_id, 0, 1), BY_ID) is not None
    return handler


def summary(data: FetchRequestData) -> tuple[int, int, list[TopicPartition], list[TopicPartition]]:
    return data.session_id, data.epoch, [name for name, _ in data.to_send], [name for name, _ in data.to_forget]


def test_first_request_names_everything_and_the_next_only_what_is_new() -> None:
    handler = FetchSessionHandler(1)
    assert summary(handler.build({A0: fetched(), A1: fetched(1)})) == (0, INITIAL_EPOCH, [A0, A1], [])
    assert handler.handle_response(answer(7, 0, 1), BY_ID) == {
        A0: PartitionData(),
        A1: PartitionData(partition_index=1),
    }
    assert summary(handler.build({A0: fetched(), A1: fetched(1, offset=3)})) == (7, 1, [A1], [])
    assert handler.handle_response(answer(7), BY_ID) == {}
    assert summary(handler.build({A0: None, B0: fetched(topic_id=B_ID)})) == (7, 2, [B0], [A0])
    assert handler.handle_response(answer(7, 0, topic_id=B_ID), BY_ID) == {B0: PartitionData()}
    assert summary(handler.build({A0: None})) == (7, 3, [], [])
    assert set(handler.partitions) == {A1, B0}


def test_leader_without_sessions_is_sent_everything_each_time() -> None:
    handler = opened(session_id=0)
    assert handler.is_full
    assert summary(handler.build({A0: fetched()})) == (0, INITIAL_EPOCH, [A0], [])


def test_session_that_the_leader_closes_with_an_answer_is_not_named_again() -> None:
    handler = opened()
    handler.build({})
    assert handler.handle_response(answer(0, 1), BY_ID) == {A1: PartitionData(partition_index=1)}
    assert summary(handler.build({A0: fetched()})) == (0, INITIAL_EPOCH, [A0], [])


def test_lost_answer_makes_the_next_request_a_full_one_that_closes_the_session() -> None:
    handler = opened()
    handler.build({A0: fetched(offset=1)})
    handler.handle_error()
    assert handler.is_full
    assert summary(handler.build({A0: fetched(offset=1), A1: fetched(1)})) == (7, INITIAL_EPOCH, [A0, A1], [])


@pytest.mark.parametrize(
    ("error", "session_id"),
    [
        (Errors.FETCH_SESSION_ID_NOT_FOUND, 0),
        (Errors.INVALID_FETCH_SESSION_EPOCH, 7),
        (Errors.FETCH_SESSION_TOPIC_ID_ERROR, 7),
        (Errors.UNKNOWN_SERVER_ERROR, 7),
    ],
)
def test_refused_session_is_begun_anew(error: Errors, session_id: int) -> None:
    handler = opened()
    handler.build({})
    assert handler.handle_response(FetchResponse(error_code=error), BY_ID) is None
    assert summary(handler.build({A0: fetched()})) == (session_id, INITIAL_EPOCH, [A0], [])


@pytest.mark.parametrize(
    ("response", "version"),
    [
        (answer(9, 0), BY_ID),
        (answer(9, 0, 1, 2), BY_ID),
        (answer(9, 0, 1, topic_id=B_ID), BY_ID),
        (answer(9, 0, 1, topic="b"), 12),
        (answer(9), BY_ID),
    ],
)
def test_full_answer_must_have_just_the_partitions_of_the_request(response: FetchResponse, version: int) -> None:
    handler = FetchSessionHandler(1)
    handler.build({A0: fetched(), A1: fetched(1)})
    assert handler.handle_response(response, version) is None
    assert summary(handler.build({A0: fetched()})) == (0, INITIAL_EPOCH, [A0], [])


def test_incremental_answer_must_have_no_partition_that_is_not_in_the_session() -> None:
    handler = opened()
    handler.build({A1: None})
    assert handler.handle_response(answer(7, 1), BY_ID) is None
    assert summary(handler.build({A0: fetched()})) == (7, INITIAL_EPOCH, [A0], [])


def test_topic_with_another_id_is_replaced_where_requests_name_ids() -> None:
    handler = opened()
    data = handler.build({A0: fetched(topic_id=B_ID)})
    assert summary(data) == (7, 1, [A0], [])
    assert data.to_replace == ((A0, A_ID),)
    (forgotten,) = data.forgotten_topics(13)
    assert (forgotten.topic_id, forgotten.partitions, data.forgotten_topics(12)) == (A_ID, (0,), ())
    assert handler.handle_response(answer(7, 0, topic_id=B_ID), BY_ID) == {A0: PartitionData()}


def test_topic_ids_are_used_only_where_all_partitions_have_one() -> None:
    handler = FetchSessionHandler(1)
    assert handler.build({A0: fetched()}).can_use_topic_ids
    handler = FetchSessionHandler(1)
    assert not handler.build({A0: fetched(), B0: fetched(topic_id=NO_TOPIC_ID)}).can_use_topic_ids
    handler.handle_response(
        FetchResponse(
            session_id=7,
            responses=(
                FetchableTopicResponse(topic="a", partitions=(PartitionData(),)),
                FetchableTopicResponse(topic="b", partitions=(PartitionData(),)),
            ),
        ),
        12,
    )
    assert not handler.build({B0: None}).can_use_topic_ids, "the partition without an id can only be dropped by name"
    handler.handle_response(answer(7), 12)
    assert handler.build({A0: fetched(offset=1)}).can_use_topic_ids


# ------------------------------------------------------------------ histories


class History:
    """A handler and a cache of sessions that exchange requests, of which some and some answers are lost."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.handler = FetchSessionHandler(1)
        self.clock = StillClock()
        self.cache = FetchSessionCache(
            1_000, purgatory=DelayedOperationPurgatory(), clock=self.clock, random=random.Random(seed)
        )
        self.wanted: dict[TopicPartition, FetchedPartition] = {}
        self.changed: dict[TopicPartition, None] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The leader's high watermarks."""
        self.seen: dict[TopicPartition, int] = {}
        """The high watermarks that the follower has received."""
        self.session_id = 0
        self.checked = 0

    def step(self) -> None:
        for _ in range(self.source.randrange(4)):
            self._change_follower()
        for _ in range(self.source.randrange(3)):
            name = TopicPartition(self.source.choice("ab"), self.source.randrange(4))
            self.high_watermarks[name] = self.high_watermarks.get(name, 0) + 1
        session = self.cache.get(self.session_id)
        if session is not None and self.source.random() < 0.05:
            self.cache.remove(session)  # as when another one needs its place
        self._fetch()

    def _change_follower(self) -> None:
        name = TopicPartition(self.source.choice("ab"), self.source.randrange(4))
        known = self.wanted.get(name)
        self.changed[name] = None
        if known is not None and self.source.random() < 0.3:
            del self.wanted[name]
        elif known is not None and self.source.random() < 0.2:
            topic_id = B_ID if known.topic_id == A_ID else A_ID
            self.wanted[name] = known._replace(topic_id=topic_id)
        elif known is not None:
            self.wanted[name] = known._replace(fetch=replace(known.fetch, fetch_offset=known.fetch.fetch_offset + 1))
        else:
            self.wanted[name] = fetched(name.partition, topic_id=A_ID if name.topic == "a" else B_ID)

    def _fetch(self) -> None:
        full = self.handler.is_full
        asked = dict.fromkeys(self.wanted) if full else self.changed
        data = self.handler.build({name: self.wanted.get(name) for name in asked})
        self.changed = {}
        if self.source.random() < 0.1:
            return self.handler.handle_error()  # the request is lost
        response = self._answer(data)
        if self.source.random() < 0.1:
            return self.handler.handle_error()
        answered = self.handler.handle_response(response, 12)
        if answered is None:
            return None
        self.seen.update((name, each.high_watermark) for name, each in answered.items())
        assert {name: self.seen[name] for name in self.wanted} == {
            name: self.high_watermarks.get(name, 0) for name in self.wanted
        }, "the follower has all high watermarks, of the answer or of earlier ones"
        self.session_id = response.session_id
        session = self.cache.get(self.session_id)
        if session is not None:
            self.checked += 1
            assert {
                cached.requested.topic_partition: cached.requested.fetch for cached in session.partitions.values()
            } == {name: each.fetch for name, each in self.wanted.items()}
        return None

    def _answer(self, data: FetchRequestData) -> FetchResponse:
        named: Requested = {name: RequestedPartition(name, each.topic_id, each.fetch) for name, each in data.to_send}
        begun = self.cache.begin(
            data.session_id,
            data.epoch,
            version=12,
            follower=-1,
            named=named,
            forgotten=[name for name, _ in data.to_forget],
            names={},
        )
        if isinstance(begun, Errors):
            return FetchResponse(error_code=begun)
        found = {
            key: PartitionData(partition_index=key[1], high_watermark=self.high_watermarks.get(TopicPartition(*key), 0))
            for key in begun.requested
        }
        error, session_id, answered = begun.answer(found)
        return FetchResponse(
            error_code=error,
            session_id=session_id,
            responses=tuple(FetchableTopicResponse(topic=key[0], partitions=(each,)) for key, each in answered.items()),
        )


@pytest.mark.parametrize("seed", range(20))
def test_both_sides_agree_after_every_answer_that_arrives(seed: int) -> None:
    history = History(seed)
    for _ in range(200):
        history.step()
    assert history.checked > 50
