"""Tests of Fetch: errors by partition, fetch sessions, followers that join the ISR, waiting requests."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import batch, log_with
from tests.brokers.parts import (
    ME,
    ORDERS,
    ORDERS_0,
    OTHER,
    apply_leader_and_isr,
    leader_and_isr,
    state,
)
from understudy.brokers.apis import fetch, fetch_reading
from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import read_config
from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.brokers.replication.fetch_session import RequestedPartition
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.message_set import first_magic, messages
from understudy.foundation.wire.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
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
    asked = FetchPartition(
        partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=10_000
    )
    return FetchRequest(
        replica_id=follower,
        replica_state=FetchReplicaState(replica_id=follower),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=(FetchTopic(topic=topic, topic_id=topic_id, partitions=(asked,)),),
    )


async def answer(harness: BrokerHarness, asked: FetchRequest, version: int = 17) -> FetchResponse:
    return await fetch.handle(harness.services, asked, harness.context(version))


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
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        apply_leader_and_isr(
            harness.replicas, leader_and_isr(state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5))
        )
        harness.update_metadata({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        return await answer(harness, asked, version)

    response = asyncio.run(scenario())
    assert error_of(response) is expected
    assert response.session_id == 0, "the request asks for no session"
    assert response.responses[0].partitions[0].records == b""


@pytest.mark.spec("BK-13")
@pytest.mark.parametrize(
    ("topic_id", "expected"), [(ANOTHER_ID, Errors.UNKNOWN_TOPIC_ID), (NO_TOPIC_ID, Errors.UNKNOWN_TOPIC_ID)]
)
def test_unknown_topic_id(topic_id: TopicId, expected: Errors) -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        return await answer(harness, request(topic_id=topic_id))

    assert error_of(asyncio.run(scenario())) is expected


@pytest.mark.parametrize("version", [11, 12, 17])
def test_partitions_are_answered_in_the_order_of_the_request(version: int) -> None:
    """A request may name a topic several times; the partitions that come first are the ones that get records."""
    asked = [(topic, topic_id, 0) for topic, topic_id in (("orders", ORDERS), ("bills", ANOTHER_ID))]
    asked += [("orders", ORDERS, 1), ("orders", ORDERS, 2)]

    async def scenario() -> FetchResponse:
        topics = tuple(
            request(topic=name, topic_id=identifier, partition=index).topics[0] for name, identifier, index in asked
        )
        return await answer(BrokerHarness(), FetchRequest(topics=topics), version)

    found = asyncio.run(scenario()).responses
    partitions = [
        (topic.topic if version < 13 else topic.topic_id, partition.partition_index)
        for topic in found
        for partition in topic.partitions
    ]
    assert partitions == [(name if version < 13 else identifier, index) for name, identifier, index in asked]
    assert len(found) == 3


@pytest.mark.parametrize(
    ("session_id", "epoch", "found"), [(12, 1, False), (0, 1, False), (12, 0, True), (12, -1, True)]
)
def test_fetch_session_is_not_found_unless_the_request_opens_or_closes_it(
    session_id: int, epoch: int, found: bool
) -> None:
    async def scenario() -> FetchResponse:
        return await answer(BrokerHarness(), FetchRequest(session_id=session_id, session_epoch=epoch))

    error = Errors.NONE if found else Errors.FETCH_SESSION_ID_NOT_FOUND
    assert asyncio.run(scenario()).error_code == error


@pytest.mark.spec("BK-13")
def test_partition_that_is_led_here_but_not_in_the_metadata_cache_is_unknown() -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(0, leader_epoch=5)))
        return await answer(harness, request(), 12)

    assert error_of(asyncio.run(scenario())) is Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("isolation_level", [-1, 2])
@pytest.mark.parametrize("version", [11, 12, 13, 17])
def test_an_unknown_isolation_level_refuses_the_fetch(isolation_level: int, version: int) -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        return await answer(harness, replace(request(CONSUMER), isolation_level=isolation_level), version)

    response = asyncio.run(scenario())
    assert Errors(response.error_code) is Errors.UNKNOWN_SERVER_ERROR
    # Clients of older versions look at the errors of partitions.
    codes = [each.error_code for topic in response.responses for each in topic.partitions]
    assert codes == ([Errors.UNKNOWN_SERVER_ERROR] if version < 13 else [])


def test_fetch_without_min_bytes_does_not_wait() -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        async with asyncio.timeout(1):
            return await answer(harness, request(max_wait_ms=60_000, min_bytes=0))

    assert error_of(asyncio.run(scenario())) is Errors.NONE


@pytest.mark.spec("BK-13")
def test_older_leader_epoch_hits_the_fence() -> None:
    async def scenario() -> BrokerHarness:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        await answer(harness, request(leader_epoch=4))
        return harness

    hits = asyncio.run(scenario()).recorder.of("FenceHit")
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
    async def scenario() -> BrokerHarness:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        harness.update_metadata({"orders": {0: ME}}, live=live)
        await answer(harness, request(follower, leader_epoch=5))
        await answer(harness, request(follower, leader_epoch=5))
        return harness

    harness = asyncio.run(scenario())
    proposed = harness.recorder.of("IsrProposed")
    assert [each["isr"] for each in proposed] == ([[ME, OTHER, 3]] if joins else [])
    assert (harness.replicas.partitions[ORDERS_0].state.proposal is not None) == joins
    if joins:
        assert (proposed[0]["joining"], proposed[0]["follower_end_offsets"]) == ([3], [[3, 0]])
        assert proposed[0]["follower_leader_epochs"] == [[3, 5]]


@pytest.mark.spec("BK-13", "IS-1")
def test_offsets_are_those_of_the_partitions_log() -> None:
    """The response, and whether a follower joins the ISR, follow from the offsets of the leader's log."""

    async def scenario() -> tuple[BrokerHarness, list[FetchResponse]]:
        harness = BrokerHarness(
            log=log_with(log_start_offset=3, log_end_offset=9, high_watermark=7, first_unstable_offset=6)
        )
        harness.become_leader("orders", 0)
        asked = [request(3, leader_epoch=5, offset=offset) for offset in (2, 10, 3, 8, 9)]
        return harness, [await answer(harness, each) for each in asked]

    harness, responses = asyncio.run(scenario())
    assert [error_of(response).name for response in responses] == [*["OFFSET_OUT_OF_RANGE"] * 2, *["NONE"] * 3]
    offsets = [
        (data.log_start_offset, data.high_watermark, data.last_stable_offset)
        for response in responses
        for data in response.responses[0].partitions
    ]
    assert offsets == [*[(-1, -1, -1)] * 2, *[(3, 7, 6)] * 3]
    (proposed,) = harness.recorder.of("IsrProposed")
    assert proposed["follower_end_offsets"] == [[3, 9]], "8 is above the high watermark, and below the epoch's start"
    assert (proposed["leader_end_offset"], proposed["high_watermark"], proposed["epoch_start_offset"]) == (9, 7, 9)


@pytest.mark.parametrize("max_bytes", [10, 60, 100])
@pytest.mark.parametrize(("version", "has_whole_batches"), [(2, False), (3, True), (12, True)])
def test_only_old_consumers_get_a_part_of_a_batch_alone(version: int, has_whole_batches: bool, max_bytes: int) -> None:
    """From version 3 on the first partition has its batch whole, and a later one whose batch is too large has none."""

    async def fetch(max_bytes: int) -> list[int]:
        harness = BrokerHarness(log=log_with(log_end_offset=1))
        harness.become_leader("orders", 0)
        harness.become_leader("orders", 1)
        asked = tuple(FetchPartition(partition=index, partition_max_bytes=max_bytes) for index in (0, 1))
        topic = FetchTopic(topic="orders", topic_id=ORDERS, partitions=asked)
        response = await answer(harness, FetchRequest(topics=(topic,), max_bytes=1_000), version)
        return [len(each.records or b"") for each in response.responses[0].partitions]

    whole = asyncio.run(fetch(1_000))
    assert whole[0] == whole[1] > 0
    if max_bytes >= len(bytes(log_with(log_end_offset=1).read(0, 1_000, end_offset=1))):
        expected = whole
    else:
        expected = [whole[0], 0] if has_whole_batches else [max_bytes, max_bytes]
    assert asyncio.run(fetch(max_bytes)) == expected


@pytest.mark.parametrize(("version", "expected"), [(9, Errors.UNSUPPORTED_COMPRESSION_TYPE), (10, Errors.NONE)])
def test_topics_in_zstd_are_refused_to_consumers_that_do_not_know_it(version: int, expected: Errors) -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        harness.logs.update_topic_config("orders", {"compression.type": "zstd"})
        return await answer(harness, request(CONSUMER), version)

    assert error_of(asyncio.run(scenario())) is expected


@pytest.mark.parametrize(
    ("version", "follower", "is_allowed", "magic"),
    [
        (0, CONSUMER, True, 0),
        (1, CONSUMER, True, 0),
        (2, CONSUMER, True, 1),
        (3, CONSUMER, True, 1),
        (4, CONSUMER, True, 2),
        (3, CONSUMER, False, None),
        (4, CONSUMER, False, 2),
        (3, OTHER, False, 2),
    ],
)
def test_records_are_converted_for_consumers_of_old_versions(
    version: int, follower: int, is_allowed: bool, magic: int | None
) -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness(log=log_with(log_end_offset=9))
        harness.become_leader("orders", 0)
        harness.logs.update_topic_config("orders", {"message.downconversion.enable": str(is_allowed).lower()})
        return await answer(harness, request(follower, leader_epoch=-1, offset=4), version)

    (data,) = asyncio.run(scenario()).responses[0].partitions
    assert data.error_code == (Errors.UNSUPPORTED_VERSION if magic is None else Errors.NONE)
    assert first_magic(data.records or b"") == magic
    if magic in (0, 1):
        assert [(each.offset, each.value) for each in messages(data.records or b"")] == [
            (offset, b"%d" % offset) for offset in range(4, 9)
        ]


def test_batches_in_zstd_cannot_be_converted() -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        led = harness.replicas.partitions[ORDERS_0]
        harness.replicas.append_as_leader(led, batch(b"value", compression=Compression.ZSTD), required_acks=1)
        await answer(harness, request(OTHER, offset=1))
        return await answer(harness, request(CONSUMER), 3)

    assert error_of(asyncio.run(scenario())) is Errors.UNSUPPORTED_COMPRESSION_TYPE


RACK_AWARE = read_config(
    {
        "zookeeper.connect": "z",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    }
)


@pytest.mark.parametrize(
    ("follower", "rack", "version", "config", "replica"),
    [
        (CONSUMER, "r2", 11, RACK_AWARE, OTHER),
        (CONSUMER, "r2", 17, RACK_AWARE, OTHER),
        (CONSUMER, "r1", 17, RACK_AWARE, -1),
        (CONSUMER, "r3", 17, RACK_AWARE, -1),
        (CONSUMER, "", 17, RACK_AWARE, -1),
        (CONSUMER, "r2", 10, RACK_AWARE, -1),
        (CONSUMER, "r2", 17, KafkaConfig(), -1),
        (OTHER, "r2", 17, RACK_AWARE, -1),
    ],
)
def test_consumer_is_sent_to_the_replica_in_its_rack(
    follower: int, rack: str, version: int, config: KafkaConfig, replica: int
) -> None:
    """With another replica to read from there are no records in the answer, and no wait."""

    async def scenario() -> FetchResponse:
        harness = BrokerHarness(config, log=log_with(log_end_offset=9))
        harness.become_leader("orders", 0)
        for offset in (0, 9):
            await answer(harness, request(OTHER, offset=offset))
        asked = replace(request(follower, offset=4, max_wait_ms=20_000), rack_id=rack)
        async with asyncio.timeout(5):
            return await answer(harness, asked, version)

    (data,) = asyncio.run(scenario()).responses[0].partitions
    assert (data.error_code, data.preferred_read_replica) == (Errors.NONE, replica)
    assert bool(data.records) == (replica == -1)
    assert data.high_watermark == 9


def test_leader_epoch_is_checked_before_a_consumer_is_sent_elsewhere() -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness(RACK_AWARE, log=log_with(log_end_offset=9))
        harness.become_leader("orders", 0)
        await answer(harness, request(OTHER, offset=9))
        return await answer(harness, replace(request(CONSUMER, leader_epoch=4), rack_id="r2"))

    assert error_of(asyncio.run(scenario())) is Errors.FENCED_LEADER_EPOCH


# ------------------------------------------------------------------ waiting


class WaitingFetchHarness(BrokerHarness):
    """Broker 1 as leader of `orders-0` and `other-3`; `checks` counts how often a partition of a Fetch is checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.checks = 0
        self.become_leader("other", 3)
        self.become_leader("orders", 0)
        original = fetch_reading.partition_error

        def counted(
            services: BrokerServices, requested: RequestedPartition, reader: fetch_reading.FetchReader
        ) -> Errors:
            self.checks += 1
            return original(services, requested, reader)

        monkeypatch.setattr(fetch_reading, "partition_error", counted)

    async def waiting(self, max_wait_ms: int = 5_000) -> asyncio.Task[FetchResponse]:
        """Start a Fetch of `orders-0`, which waits."""
        task = asyncio.create_task(answer(self, request(max_wait_ms=max_wait_ms)))
        await asyncio.sleep(0)
        assert (self.replicas.delayed_fetches.watched, self.checks) == (1, 1)
        return task

    def stop(self, topic: str, partition: int) -> None:
        """Delete a partition."""
        gone = StopReplicaPartitionState(partition_index=partition, leader_epoch=-2, delete_partition=True)
        topics = (StopReplicaTopicState(topic_name=topic, partition_states=(gone,)),)
        self.replicas.stop_replicas(StopReplicaRequest(topic_states=topics))


async def next_steps() -> None:
    """Let every task that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_waiting_fetch_is_checked_again_only_when_its_partition_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> FetchResponse:
        harness = WaitingFetchHarness(monkeypatch)
        waiting = await harness.waiting()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(3, leader_epoch=6), topic="other"))
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(4), topic="other"))
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(0, leader_epoch=5)))
        harness.stop("other", 3)
        await next_steps()
        assert (waiting.done(), harness.checks) == (False, 1), "nothing of orders-0 has changed"
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(leader=OTHER, leader_epoch=6)))
        response = await waiting
        assert (harness.checks, harness.replicas.delayed_fetches.watched) == (2, 0)
        return response

    assert error_of(asyncio.run(scenario())) is Errors.FENCED_LEADER_EPOCH


def test_waiting_fetch_ends_when_its_partition_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> FetchResponse:
        harness = WaitingFetchHarness(monkeypatch)
        waiting = await harness.waiting()
        harness.stop("orders", 0)
        return await waiting

    assert error_of(asyncio.run(scenario())) is Errors.NOT_LEADER_OR_FOLLOWER


def test_fetch_keeps_waiting_after_a_change_without_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = WaitingFetchHarness(monkeypatch)
        waiting = await harness.waiting()
        harness.replicas.delayed_fetches.check_and_complete([ORDERS_0])
        await next_steps()
        assert (waiting.done(), harness.checks, harness.replicas.delayed_fetches.watched) == (False, 2, 1)
        harness.stop("orders", 0)
        assert error_of(await waiting) is Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())


def test_change_at_the_moment_of_the_timeout_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> FetchResponse:
        harness = WaitingFetchHarness(monkeypatch)
        waiting = await harness.waiting(max_wait_ms=1)
        loop = asyncio.get_running_loop()
        late = loop.time() + 0.005
        while loop.time() < late:
            pass  # the timer is due, and cannot fire before the deletion
        harness.stop("orders", 0)
        return await waiting

    assert error_of(asyncio.run(scenario())) is Errors.NOT_LEADER_OR_FOLLOWER


def test_fetch_that_times_out_or_is_cancelled_is_not_watched_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = WaitingFetchHarness(monkeypatch)
        assert error_of(await (await harness.waiting(max_wait_ms=1))) is Errors.NONE
        assert harness.replicas.delayed_fetches.watched == 0
        harness.checks = 0
        waiting = await harness.waiting()
        waiting.cancel()  # as when the broker closes the connection
        await asyncio.gather(waiting, return_exceptions=True)
        assert (waiting.cancelled(), harness.replicas.delayed_fetches.watched) == (True, 0)

    asyncio.run(scenario())


def test_fetch_beyond_the_bound_of_waiting_fetches_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = WaitingFetchHarness(monkeypatch)
        harness.replicas.delayed_fetches = DelayedOperationPurgatory(max_watched=1)
        waiting = await harness.waiting()
        async with asyncio.timeout(1):
            assert error_of(await answer(harness, request(max_wait_ms=60_000))) is Errors.NONE
        assert not waiting.done()
        harness.stop("orders", 0)
        assert error_of(await waiting) is Errors.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())


@pytest.mark.parametrize("max_wait_ms", [-5, 0, 1])
def test_fetch_with_a_short_wait_is_answered(max_wait_ms: int) -> None:
    async def scenario() -> FetchResponse:
        harness = BrokerHarness()
        harness.become_leader("orders", 0)
        return await answer(harness, request(max_wait_ms=max_wait_ms))

    assert error_of(asyncio.run(scenario())) is Errors.NONE
