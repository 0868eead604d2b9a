from __future__ import annotations

import asyncio

import pytest

from brokers.apis import fetch
from brokers.apis.services import BrokerServices
from brokers.replication.delayed_operations import DelayedOperationPurgatory
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from foundation.wire.messages.fetch import FetchPartition, FetchReplicaState, FetchRequest, FetchResponse, FetchTopic
from foundation.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from tests.brokers.services import Stage
from tests.brokers.stage import (
    ME,
    ORDERS,
    ORDERS_0,
    OTHER,
    LogWithRecords,
    apply_leader_and_isr,
    leader_and_isr,
    state,
)

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
def test_each_partition_is_answered_with_records_or_an_error(
    asked: FetchRequest, expected: Errors, version: int
) -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        apply_leader_and_isr(
            stage.replicas, leader_and_isr(state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5))
        )
        stage.hear({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        return await answer(stage, asked, version)

    response = asyncio.run(scene())
    assert error_of(response) is expected
    assert response.session_id == 0, "no fetch session is opened"
    assert response.responses[0].partitions[0].records == b""


@pytest.mark.spec("BK-13")
@pytest.mark.parametrize(
    ("topic_id", "expected"), [(ANOTHER_ID, Errors.UNKNOWN_TOPIC_ID), (NO_TOPIC_ID, Errors.UNKNOWN_TOPIC_ID)]
)
def test_unknown_topic_id(topic_id: TopicId, expected: Errors) -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        return await answer(stage, request(topic_id=topic_id))

    assert error_of(asyncio.run(scene())) is expected


@pytest.mark.parametrize(
    ("session_id", "epoch", "found"), [(12, 1, False), (0, 1, False), (12, 0, True), (12, -1, True)]
)
def test_fetch_session_is_not_found_unless_the_request_opens_or_closes_it(
    session_id: int, epoch: int, found: bool
) -> None:
    async def scene() -> FetchResponse:
        return await answer(Stage(), FetchRequest(session_id=session_id, session_epoch=epoch))

    error = Errors.NONE if found else Errors.FETCH_SESSION_ID_NOT_FOUND
    assert asyncio.run(scene()).error_code == error


@pytest.mark.spec("BK-13")
def test_partition_that_is_led_here_but_not_in_the_metadata_cache_is_unknown() -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        apply_leader_and_isr(stage.replicas, leader_and_isr(state(0, leader_epoch=5)))
        return await answer(stage, request(), 12)

    assert error_of(asyncio.run(scene())) is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_fetch_without_min_bytes_does_not_wait() -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        async with asyncio.timeout(1):
            return await answer(stage, request(max_wait_ms=60_000, min_bytes=0))

    assert error_of(asyncio.run(scene())) is Errors.NONE


@pytest.mark.spec("BK-13")
def test_older_leader_epoch_hits_the_fence() -> None:
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
def test_follower_that_fetches_joins_the_isr_if_it_is_alive_and_not_in_it(
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
    assert (stage.replicas.partitions[ORDERS_0].state.proposal is not None) == joins
    if joins:
        assert (proposed[0]["joining"], proposed[0]["follower_end_offsets"]) == ([3], [[3, 0]])
        assert proposed[0]["follower_leader_epochs"] == [[3, 5]]


@pytest.mark.spec("BK-13", "IS-1")
def test_offsets_are_those_of_the_partitions_log() -> None:
    """A follower is judged, answered and added to the ISR by the offsets of the leader's log."""

    async def scene() -> tuple[Stage, list[FetchResponse]]:
        stage = Stage(log=LogWithRecords(log_start_offset=3, log_end_offset=9, high_watermark=7, last_stable_offset=6))
        stage.lead("orders", 0)
        asked = [request(3, leader_epoch=5, offset=offset) for offset in (2, 10, 3, 8, 9)]
        return stage, [await answer(stage, each) for each in asked]

    stage, responses = asyncio.run(scene())
    assert [error_of(response).name for response in responses] == [*["OFFSET_OUT_OF_RANGE"] * 2, *["NONE"] * 3]
    offsets = [
        (data.log_start_offset, data.high_watermark, data.last_stable_offset)
        for response in responses
        for data in response.responses[0].partitions
    ]
    assert offsets == [*[(-1, -1, -1)] * 2, *[(3, 7, 6)] * 3]
    (proposed,) = stage.recorder.of("IsrProposed")
    assert proposed["follower_end_offsets"] == [[3, 9]], "8 is above the high watermark, and below the epoch's start"
    assert (proposed["leader_end_offset"], proposed["high_watermark"], proposed["epoch_start_offset"]) == (9, 7, 9)


# ------------------------------------------------------------------ waiting


class WaitingStage(Stage):
    """Broker 1 leads `orders-0` and `other-3`. Counts how often a partition of a Fetch is judged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.judged = 0
        self.lead("other", 3)
        self.lead("orders", 0)
        judge = fetch.partition_error

        def counted(services: BrokerServices, requested: fetch.RequestedPartition, follower: int) -> Errors:
            self.judged += 1
            return judge(services, requested, follower)

        monkeypatch.setattr(fetch, "partition_error", counted)

    async def waiting(self, max_wait_ms: int = 5_000) -> asyncio.Task[FetchResponse]:
        """A Fetch of `orders-0` that waits."""
        task = asyncio.create_task(answer(self, request(max_wait_ms=max_wait_ms)))
        await asyncio.sleep(0)
        assert (self.replicas.delayed_fetches.watched, self.judged) == (1, 1)
        return task

    def stop(self, topic: str, partition: int) -> None:
        """Delete a partition."""
        gone = StopReplicaPartitionState(partition_index=partition, leader_epoch=-2, delete_partition=True)
        topics = (StopReplicaTopicState(topic_name=topic, partition_states=(gone,)),)
        self.replicas.stop_replicas(StopReplicaRequest(topic_states=topics))


async def next_steps() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_waiting_fetch_is_judged_again_when_its_partition_changes_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> FetchResponse:
        stage = WaitingStage(monkeypatch)
        waiting = await stage.waiting()
        apply_leader_and_isr(stage.replicas, leader_and_isr(state(3, leader_epoch=6), topic="other"))
        apply_leader_and_isr(stage.replicas, leader_and_isr(state(4), topic="other"))
        apply_leader_and_isr(stage.replicas, leader_and_isr(state(0, leader_epoch=5)))
        stage.stop("other", 3)
        await next_steps()
        assert (waiting.done(), stage.judged) == (False, 1), "nothing of orders-0 has changed"
        apply_leader_and_isr(stage.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        response = await waiting
        assert (stage.judged, stage.replicas.delayed_fetches.watched) == (2, 0)
        return response

    assert error_of(asyncio.run(scene())) is Errors.FENCED_LEADER_EPOCH


def test_waiting_fetch_ends_when_its_partition_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> FetchResponse:
        stage = WaitingStage(monkeypatch)
        waiting = await stage.waiting()
        stage.stop("orders", 0)
        return await waiting

    assert error_of(asyncio.run(scene())) is Errors.NOT_LEADER_OR_FOLLOWER


def test_fetch_goes_on_waiting_after_a_change_that_leaves_it_without_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        stage = WaitingStage(monkeypatch)
        waiting = await stage.waiting()
        stage.replicas.delayed_fetches.check_and_complete([ORDERS_0])
        await next_steps()
        assert (waiting.done(), stage.judged, stage.replicas.delayed_fetches.watched) == (False, 2, 1)
        stage.stop("orders", 0)
        assert error_of(await waiting) is Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())


def test_change_at_the_moment_of_the_timeout_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> FetchResponse:
        stage = WaitingStage(monkeypatch)
        waiting = await stage.waiting(max_wait_ms=1)
        loop = asyncio.get_running_loop()
        late = loop.time() + 0.005
        while loop.time() < late:
            pass  # the timer is due, and cannot fire before the deletion
        stage.stop("orders", 0)
        return await waiting

    assert error_of(asyncio.run(scene())) is Errors.NOT_LEADER_OR_FOLLOWER


def test_fetch_that_times_out_or_is_cancelled_is_watched_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        stage = WaitingStage(monkeypatch)
        assert error_of(await (await stage.waiting(max_wait_ms=1))) is Errors.NONE
        assert stage.replicas.delayed_fetches.watched == 0
        stage.judged = 0
        waiting = await stage.waiting()
        waiting.cancel()  # as when the broker closes the connection
        await asyncio.gather(waiting, return_exceptions=True)
        assert (waiting.cancelled(), stage.replicas.delayed_fetches.watched) == (True, 0)

    asyncio.run(scene())


def test_fetch_that_finds_no_room_to_wait_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        stage = WaitingStage(monkeypatch)
        stage.replicas.delayed_fetches = DelayedOperationPurgatory(max_watched=1)
        waiting = await stage.waiting()
        async with asyncio.timeout(1):
            assert error_of(await answer(stage, request(max_wait_ms=60_000))) is Errors.NONE
        assert not waiting.done()
        stage.stop("orders", 0)
        assert error_of(await waiting) is Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scene())


@pytest.mark.parametrize("max_wait_ms", [-5, 0, 1])
def test_wait_that_is_over_at_once(max_wait_ms: int) -> None:
    async def scene() -> FetchResponse:
        stage = Stage()
        stage.lead("orders", 0)
        return await answer(stage, request(max_wait_ms=max_wait_ms))

    assert error_of(asyncio.run(scene())) is Errors.NONE
