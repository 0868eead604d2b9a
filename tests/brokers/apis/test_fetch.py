from __future__ import annotations

import asyncio

import pytest

from brokers.apis import fetch
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from foundation.wire.messages.fetch import FetchPartition, FetchReplicaState, FetchRequest, FetchResponse, FetchTopic
from foundation.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from tests.brokers.services import Stage
from tests.brokers.stage import ME, ORDERS, ORDERS_0, OTHER, leader_and_isr, state, tell

CONSUMER, DEBUGGING_CONSUMER = -1, -2
ANOTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAw")


def request(
    follower: int = OTHER,
    *,
    topic: str = "orders",
    topic_id: TopicId = ORDERS,
    partition: int = 0,
    leader_epoch: int = 5,
    offset: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
) -> FetchRequest:
    asked = FetchPartition(partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset)
    return FetchRequest(
        replica_id=follower,
        replica_state=FetchReplicaState(replica_id=follower),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=(asked,)),),
    )


async def answer(stage: Stage, asked: FetchRequest, version: int = 17) -> FetchResponse:
    return await fetch.handle(stage.services, asked, stage.context(version))


def error_of(response: FetchResponse) -> Errors:
    return Errors(response.responses[0].partitions[0].error_code)


@pytest.mark.spec("BK-13")
@pytest.mark.parametrize("version", [11, 12, 17])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request(), Errors.NONE),
        (request(CONSUMER), Errors.NONE),
        (request(DEBUGGING_CONSUMER), Errors.NONE),
        (request(leader_epoch=-1), Errors.NONE),
        (request(leader_epoch=4), Errors.FENCED_LEADER_EPOCH),
        (request(leader_epoch=6), Errors.UNKNOWN_LEADER_EPOCH),
        (request(9), Errors.UNKNOWN_LEADER_EPOCH),
        (request(9, leader_epoch=-1), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(partition=1), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(partition=2), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(partition=7), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (request(offset=3), Errors.OFFSET_OUT_OF_RANGE),
    ],
)
def test_who_is_answered_and_who_is_told_what(asked: FetchRequest, expected: Errors, version: int) -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        tell(stage.replicas, leader_and_isr(state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5)))
        stage.hear({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        return await answer(stage, asked, version)

    response = asyncio.run(scene())
    assert error_of(response) is expected
    assert response.session_id == 0, "no session is opened"
    assert response.responses[0].partitions[0].records == b""


@pytest.mark.spec("BK-13")
@pytest.mark.parametrize(
    ("topic_id", "expected"), [(ANOTHER_ID, Errors.UNKNOWN_TOPIC_ID), (NO_TOPIC_ID, Errors.UNKNOWN_TOPIC_ID)]
)
def test_an_id_nobody_has_heard_of(topic_id: TopicId, expected: Errors) -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        return await answer(stage, request(topic_id=topic_id))

    assert error_of(asyncio.run(scene())) is expected


@pytest.mark.parametrize(
    ("session_id", "epoch", "found"), [(12, 1, False), (0, 1, False), (12, 0, True), (12, -1, True)]
)
def test_a_session_nobody_opened_cannot_be_gone_on_with_but_left_or_begun(
    session_id: int, epoch: int, found: bool
) -> None:
    async def scene() -> FetchResponse:
        return await answer(Stage(), FetchRequest(session_id=session_id, session_epoch=epoch))

    error = Errors.NONE if found else Errors.FETCH_SESSION_ID_NOT_FOUND
    assert asyncio.run(scene()).error_code == error


@pytest.mark.spec("BK-13")
def test_what_is_led_here_and_not_in_the_metadata_cache_yet_is_unknown() -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        tell(stage.replicas, leader_and_isr(state(0, leader_epoch=5)))
        return await answer(stage, request(), 12)

    assert error_of(asyncio.run(scene())) is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_that_needs_no_bytes_does_not_wait_for_any() -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        async with asyncio.timeout(1):
            return await answer(stage, request(max_wait_ms=60_000, min_bytes=0))

    assert error_of(asyncio.run(scene())) is Errors.NONE


@pytest.mark.spec("BK-13")
def test_an_old_leader_epoch_is_a_hit_of_the_fence() -> None:
    async def scene() -> Stage:
        stage = Stage()
        stage.lead("orders", 0)
        await answer(stage, request(leader_epoch=4))
        return stage

    hits = asyncio.run(scene()).recorder.of("FenceHit")
    assert [(hit["fence"], hit["what"], hit["offered"], hit["known"]) for hit in hits] == [
        ("broker.fetch-leader-epoch", "Fetch orders-0", 4, 5)
    ]


@pytest.mark.spec("IS-1", "IS-4")
@pytest.mark.parametrize(
    ("follower", "live", "joins"), [(3, (1, 2, 3), True), (3, (1, 2), False), (OTHER, (1, 2, 3), False)]
)
def test_a_follower_that_fetches_joins_the_isr_if_it_is_alive_and_not_in_it(
    follower: int, live: tuple[int, ...], joins: bool
) -> None:
    async def scene() -> Stage:
        stage = Stage()
        stage.lead("orders", 0)
        stage.hear({"orders": {0: ME}}, live=live)
        await answer(stage, request(follower, leader_epoch=5))
        await answer(stage, request(follower, leader_epoch=5))
        return stage

    stage = asyncio.run(scene())
    proposed = stage.recorder.of("IsrProposed")
    assert [each["isr"] for each in proposed] == ([[ME, OTHER, 3]] if joins else [])
    assert (stage.replicas.partitions[ORDERS_0].proposal is not None) == joins
    if joins:
        assert (proposed[0]["joining"], proposed[0]["follower_end_offsets"]) == ([3], [[3, 0]])
        assert proposed[0]["follower_leader_epochs"] == [[3, 5]]


def test_a_fetch_waits_and_an_election_meanwhile_ends_the_wait_with_an_error() -> None:
    async def scene() -> tuple[bool, FetchResponse]:
        stage = Stage()
        stage.lead("orders", 0)
        waiting = asyncio.create_task(answer(stage, request(max_wait_ms=5_000)))
        await asyncio.sleep(0.01)
        tell(stage.replicas, leader_and_isr(state(3), topic="other"))
        await asyncio.sleep(0.01)
        still_waiting = not waiting.done()
        tell(stage.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        return still_waiting, await waiting

    still_waiting, response = asyncio.run(scene())
    assert still_waiting, "a change elsewhere does not end it"
    assert error_of(response) is Errors.FENCED_LEADER_EPOCH


def test_a_deletion_ends_the_wait_too() -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        waiting = asyncio.create_task(answer(stage, request(max_wait_ms=5_000)))
        await asyncio.sleep(0.01)
        gone = StopReplicaPartitionState(leader_epoch=-2, delete_partition=True)
        stage.replicas.stop_replicas(
            StopReplicaRequest(topic_states=(StopReplicaTopicState(topic_name="orders", partition_states=(gone,)),))
        )
        return await waiting

    assert error_of(asyncio.run(scene())) is Errors.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("max_wait_ms", [-5, 0, 1])
def test_a_wait_that_is_over_at_once(max_wait_ms: int) -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        return await answer(stage, request(max_wait_ms=max_wait_ms))

    assert error_of(asyncio.run(scene())) is Errors.NONE
