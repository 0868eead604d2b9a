"""Tests of the fetch loops of followers, with encoded requests to a scripted leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from tests.brokers.log.parts import log_with, open_log
from tests.brokers.parts import ORDERS, Recorder
from tests.brokers.peers import ScriptedPeer
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import read_config
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.replication.fetch_session_handler import FetchSessionHandler
from understudy.brokers.replication.partition import LocalPartitionState, Partition, Role
from understudy.brokers.replication.replica_fetcher import (
    FetcherSurroundings,
    PartitionFetchState,
    fetch_request,
    fetched_partition,
)
from understudy.brokers.replication.replica_fetcher_manager import ReplicaFetcherManager
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from understudy.foundation.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from understudy.foundation.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset as EndOfEpoch,
)
from understudy.foundation.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.wire.schema import Message

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
CONFIG = read_config({"zookeeper.connect": "z", "replica.fetch.backoff.ms": "20", "replica.fetch.wait.max.ms": "5"})


def full_request(fetched: dict[TopicPartition, PartitionFetchState], config: KafkaConfig) -> tuple[FetchRequest, int]:
    """The first Fetch of a session."""
    data = FetchSessionHandler(1).build({here: fetched_partition(state, config) for here, state in fetched.items()})
    return fetch_request(data, broker_id=3, broker_epoch=40, config=config)


ALL_IDS, ONE_WITHOUT = (ORDERS, ORDERS), (ORDERS, NO_TOPIC_ID)


@pytest.mark.parametrize(
    ("protocol", "ids", "version"),
    [
        ("3.9", ALL_IDS, 17),
        ("3.9", ONE_WITHOUT, 12),
        ("3.5-IV0", ALL_IDS, 14),
        ("3.1", ALL_IDS, 13),
        ("3.1", ONE_WITHOUT, 12),
        ("2.8", ALL_IDS, 12),
        ("2.6", ONE_WITHOUT, 11),
        ("2.0", ONE_WITHOUT, 8),
        ("0.11.0-IV0", ONE_WITHOUT, 4),
    ],
)
def test_fetch_version_follows_from_the_protocol_and_from_whether_all_topics_have_ids(
    protocol: str, ids: tuple[TopicId, ...], version: int
) -> None:
    config = replace(CONFIG, inter_broker_protocol_version=protocol)
    fetched = {
        TopicPartition(f"t{index}", 0): PartitionFetchState(topic_id, 4, a_partition())
        for index, topic_id in enumerate(ids)
    }
    request, used_version = full_request(fetched, config)
    assert used_version == version
    sent = decode(FetchRequest, version, encode(request, version))
    replica = sent.replica_state.replica_id if version >= 15 else sent.replica_id
    epoch = sent.topics[0].partitions[0].current_leader_epoch
    assert (replica, sent.max_wait_ms, epoch) == (3, 5, 4 if version >= 9 else -1)


def test_fetch_starts_at_the_end_of_the_followers_log() -> None:
    fetched = {
        A0: PartitionFetchState(ORDERS, 4, a_partition(log_with(log_start_offset=3, log_end_offset=9, leader_epoch=2)))
    }
    request, _ = full_request(fetched, CONFIG)
    (asked,) = request.topics[0].partitions
    assert (asked.fetch_offset, asked.log_start_offset, asked.last_fetched_epoch) == (9, 3, 2)


def a_partition(log: PartitionLog | None = None) -> Partition:
    return Partition(LocalPartitionState(topic_partition=A0), log or open_log(topic_partition=A0))


def answering(request: FetchRequest, **errors: Errors) -> FetchResponse:
    """An answer about the partitions of a request, each with its error: `p1=Errors.…` is the error of partition 1."""
    return FetchResponse(
        responses=tuple(
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionData(
                        partition_index=each.partition, error_code=errors.get(f"p{each.partition}", Errors.NONE)
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


class LoopClock:
    def monotonic_ms(self) -> float:
        return asyncio.get_running_loop().time() * 1000

    def wall_ms(self) -> float:
        return self.monotonic_ms()


class FetcherHarness:
    """The replica fetchers of broker 3; `answer` makes the responses of every leader.

    Args:
        others: makes the responses to other requests than Fetches.
        protocol: `inter.broker.protocol.version`.
    """

    def __init__(
        self,
        answer: Callable[[FetchRequest], FetchResponse | None],
        others: Callable[[Message], Message] | None = None,
        protocol: str = "3.9",
    ) -> None:
        self.peer = ScriptedPeer(lambda _, message: self._response(answer, others, message), delay_s=0.005)
        self.tasks: list[asyncio.Task[None]] = []
        self.manager = ReplicaFetcherManager(
            FetcherSurroundings(
                broker_id=3,
                config=replace(CONFIG, inter_broker_protocol_version=protocol),
                network=self.peer,
                clock=LoopClock(),
                append=lambda partition, records, *_: None,
                address=lambda leader: UpdateMetadataEndpoint(host=f"h{leader}", port=9092),
                broker_epoch=lambda: 40,
                spawn=self._spawn,
                rules=Fences(Recorder().log).rules,
            )
        )

    @property
    def fetches(self) -> list[tuple[str, list[tuple[int, int]]]]:
        """Address, and (partition, leader epoch) of each Fetch."""
        return [
            (
                address,
                [(each.partition, each.current_leader_epoch) for topic in message.topics for each in topic.partitions],
            )
            for address, _, message in self.peer.received
            if isinstance(message, FetchRequest)
        ]

    @property
    def asked_offsets(self) -> list[int]:
        """The timestamp of each ListOffsets."""
        return [
            each.timestamp
            for _, _, message in self.peer.received
            if isinstance(message, ListOffsetsRequest)
            for topic in message.topics
            for each in topic.partitions
        ]

    def follow(
        self, partition: int, *, leader: int = 1, leader_epoch: int = 0, replica: PartitionLog | None = None
    ) -> None:
        followed = LocalPartitionState(
            topic_partition=TopicPartition("a", partition),
            topic_id=ORDERS,
            role=Role.FOLLOWER,
            leader=leader,
            leader_epoch=leader_epoch,
        )
        self.manager.follow((Partition(followed, replica or open_log(topic_partition=followed.topic_partition)),))

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self.tasks.append(task)
        return task

    @staticmethod
    def _response(
        answer: Callable[[FetchRequest], FetchResponse | None],
        others: Callable[[Message], Message] | None,
        message: Message,
    ) -> Message | None:
        if isinstance(message, FetchRequest):
            return answer(message)
        assert others is not None
        return others(message)


class LeaderLog:
    """The ends of a leader's log: answers Fetches outside of them with OFFSET_OUT_OF_RANGE, and ListOffsets.

    Attributes:
        errors: the errors of the next answers to ListOffsets, the last one first.
    """

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.errors: list[Errors] = []

    def fetch(self, request: FetchRequest) -> FetchResponse:
        asked = [each.fetch_offset for topic in request.topics for each in topic.partitions]
        in_range = all(self.start <= offset <= self.end for offset in asked)
        return answering(request, p0=Errors.NONE if in_range else Errors.OFFSET_OUT_OF_RANGE)

    def offsets(self, request: Message) -> ListOffsetsResponse:
        assert isinstance(request, ListOffsetsRequest)
        ((asked,),) = [topic.partitions for topic in request.topics]
        error = self.errors.pop() if self.errors else Errors.NONE
        found = ListOffsetsPartitionResponse(
            error_code=error, offset={LATEST_TIMESTAMP: self.end, EARLIEST_TIMESTAMP: self.start}[asked.timestamp]
        )
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="a", partitions=(found,)),))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.spec("BK-9")
def test_one_loop_per_leader_fetches_all_that_it_leads() -> None:
    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(answering)
        harness.follow(0)
        harness.follow(1)
        harness.follow(2, leader=2)
        await until(lambda: len(harness.fetches) > 4)
        harness.manager.stop([A0])
        harness.follow(1, leader=2, leader_epoch=6)
        count = len(harness.fetches)
        await until(lambda: len(harness.fetches) > count + 3)
        harness.manager.close()
        await asyncio.gather(*harness.tasks, return_exceptions=True)
        return harness

    harness = asyncio.run(scenario())
    assert ("h1:9092", [(0, 0), (1, 0)]) in harness.fetches
    assert ("h2:9092", [(2, 0)]) in harness.fetches
    assert harness.fetches[-1] == ("h2:9092", [(2, 0), (1, 6)])
    assert len(harness.tasks) == 2
    assert all(task.done() for task in harness.tasks), "the loop without partitions has ended too"
    assert harness.peer.connections == 2


@pytest.mark.spec("BK-13")
def test_partition_in_error_is_delayed_and_the_others_are_fetched() -> None:
    async def scenario() -> list[list[tuple[int, int]]]:
        harness = FetcherHarness(lambda request: answering(request, p1=Errors.NOT_LEADER_OR_FOLLOWER))
        harness.follow(0)
        harness.follow(1)
        await until(lambda: len([1 for _, asked in harness.fetches if (1, 0) in asked]) >= 3)
        harness.manager.close()
        return [asked for _, asked in harness.fetches]

    asked = asyncio.run(scenario())
    assert asked[0] == [(0, 0), (1, 0)]
    assert asked[1] == [(0, 0)]
    assert all((0, 0) in each for each in asked)


@pytest.mark.spec("BK-13")
def test_fenced_partition_is_not_fetched_until_the_next_leader_and_isr() -> None:
    async def scenario() -> tuple[int, list[tuple[int, int]]]:
        harness = FetcherHarness(lambda request: answering(request, p0=Errors.FENCED_LEADER_EPOCH))
        harness.follow(0)
        await until(lambda: len(harness.fetches) == 1)
        await asyncio.sleep(0.06)
        quiet = len(harness.fetches)
        harness.follow(0, leader_epoch=1)
        await until(lambda: len(harness.fetches) == 2)
        harness.manager.close()
        return quiet, harness.fetches[1][1]

    assert asyncio.run(scenario()) == (1, [(0, 1)])


@pytest.mark.parametrize("is_assigned_anew", [False, True])
def test_an_answer_is_used_for_the_partitions_after_one_that_was_stopped_meanwhile(is_assigned_anew: bool) -> None:
    async def scenario() -> FetcherHarness:
        def answer(request: FetchRequest) -> FetchResponse:
            if len(harness.fetches) == 1:
                harness.manager.stop([A0])
                if is_assigned_anew:
                    harness.follow(0, leader_epoch=1)
            return answering(request, p1=Errors.FENCED_LEADER_EPOCH)

        harness = FetcherHarness(answer)
        harness.follow(0)
        harness.follow(1)
        harness.follow(2)
        await until(lambda: len(harness.fetches) >= 4)
        harness.manager.close()
        return harness

    _, second, *_ = [message for _, _, message in asyncio.run(scenario()).peer.received]
    assert isinstance(second, FetchRequest)
    named = {each.partition for topic in second.topics for each in topic.partitions}
    assert named == ({0, 2} if is_assigned_anew else {2})


def test_unreachable_leader_is_tried_again_over_a_new_connection() -> None:
    async def scenario() -> FetcherHarness:
        lost = [True]
        harness = FetcherHarness(lambda request: None if lost and lost.pop() else answering(request))
        harness.peer.reachable = False
        harness.follow(0)
        await asyncio.sleep(0.03)
        harness.peer.reachable = True
        await until(lambda: len(harness.fetches) >= 3)
        harness.manager.close()
        return harness

    assert asyncio.run(scenario()).peer.connections == 2


# ------------------------------------------------------------------ offsets that the leader does not have


@pytest.mark.parametrize(
    ("leader", "ends", "asked"),
    [
        pytest.param(LeaderLog(0, 5), (0, 5), [LATEST_TIMESTAMP], id="the leader's log ends before"),
        pytest.param(
            LeaderLog(20, 30), (20, 20), [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP], id="the leader's log begins later"
        ),
    ],
)
def test_a_follower_that_is_out_of_range_goes_to_where_it_can_fetch(
    leader: LeaderLog, ends: tuple[int, int], asked: list[int]
) -> None:
    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(leader.fetch, leader.offsets)
        harness.follow(0, replica=replica)
        await until(lambda: len(harness.fetches) >= 3)
        harness.manager.close()
        return harness

    replica = log_with(log_start_offset=0, log_end_offset=9, leader_epoch=0)
    harness = asyncio.run(scenario())
    assert (replica.log_start_offset, replica.log_end_offset) == ends
    assert harness.asked_offsets == asked


def test_a_follower_asks_again_for_the_ends_of_a_log_that_the_leader_could_not_tell() -> None:
    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(leader.fetch, leader.offsets)
        harness.follow(0, replica=replica)
        await until(lambda: len(harness.fetches) >= 3)
        harness.manager.close()
        return harness

    leader, replica = LeaderLog(0, 5), log_with(log_start_offset=0, log_end_offset=9, leader_epoch=0)
    leader.errors = [Errors.LEADER_NOT_AVAILABLE]
    assert asyncio.run(scenario()).asked_offsets == [LATEST_TIMESTAMP] * 2
    assert replica.log_end_offset == 5


def test_an_epoch_without_records_is_removed_where_the_leaders_log_diverges_at_its_start() -> None:
    """KAFKA-10706: else the follower names the epoch in each Fetch, and is answered with the same divergence again."""

    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(diverging)
        harness.follow(0, replica=replica)
        await until(lambda: len(harness.fetches) >= 2)
        harness.manager.close()
        return harness

    def diverging(request: FetchRequest) -> FetchResponse:
        asked = [each for topic in request.topics for each in topic.partitions]
        found = tuple(
            PartitionData(diverging_epoch=EpochEndOffset(epoch=0, end_offset=9))
            for each in asked
            if each.last_fetched_epoch == 3
        )
        return FetchResponse(responses=(FetchableTopicResponse(topic_id=ORDERS, partitions=found),))

    replica = log_with(log_end_offset=9, leader_epoch=0)
    replica.epochs.assign(3, 9)
    asyncio.run(scenario())
    assert (replica.epochs.latest_epoch, replica.log_end_offset) == (0, 9)


# ------------------------------------------------------------------ truncation before the first Fetch, until 2.7


class EpochEnds:
    """Answers OffsetForLeaderEpoch with the ends of a leader's epochs, also of partitions that were not asked for.

    Attributes:
        asked: the epoch that each request wanted.
        before: called before each answer.
    """

    def __init__(self, *ends: EndOfEpoch) -> None:
        self.asked: list[int] = []
        self.before: Callable[[], None] = lambda: None
        self._ends = ends

    def __call__(self, request: Message) -> OffsetForLeaderEpochResponse:
        assert isinstance(request, OffsetForLeaderEpochRequest)
        self.asked += [each.leader_epoch for topic in request.topics for each in topic.partitions]
        self.before()
        return OffsetForLeaderEpochResponse(topics=(OffsetForLeaderTopicResult(topic="a", partitions=self._ends),))


def first_fetched_offset(harness: FetcherHarness) -> int:
    fetch = next(message for _, _, message in harness.peer.received if isinstance(message, FetchRequest))
    return fetch.topics[0].partitions[0].fetch_offset


def test_a_follower_truncates_to_where_its_last_epoch_ends_in_the_leaders_log_before_it_fetches() -> None:
    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(answering, ends, protocol="2.6")
        harness.follow(0, replica=replica)
        await until(lambda: len(harness.fetches) >= 2)
        harness.manager.close()
        return harness

    replica = log_with(log_end_offset=9, leader_epoch=2)
    ends = EpochEnds(EndOfEpoch(partition=7), EndOfEpoch(leader_epoch=2, end_offset=5))
    assert first_fetched_offset(asyncio.run(scenario())) == replica.log_end_offset == 5
    assert ends.asked == [2]


def test_a_follower_without_leader_epochs_truncates_to_its_high_watermark_and_asks_nothing() -> None:
    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(answering, protocol="2.6")
        harness.follow(0, replica=replica)
        await until(lambda: len(harness.fetches) >= 2)
        harness.manager.close()
        return harness

    replica = log_with(log_end_offset=9, high_watermark=6)
    replica.epochs.truncate_from_end(0)
    assert first_fetched_offset(asyncio.run(scenario())) == replica.log_end_offset == 6


def test_the_end_of_an_epoch_is_not_used_for_a_partition_that_was_assigned_anew_meanwhile() -> None:
    async def scenario() -> FetcherHarness:
        harness = FetcherHarness(answering, ends, protocol="2.6")
        kept = log_with(log_end_offset=9, leader_epoch=2)

        def assign_anew() -> None:
            if len(ends.asked) == 1:
                harness.follow(0, leader_epoch=4, replica=replica)

        ends.before = assign_anew
        harness.follow(0, leader_epoch=3, replica=kept)
        await until(lambda: len(harness.fetches) >= 2)
        harness.manager.close()
        assert kept.log_end_offset == 9
        return harness

    replica = log_with(log_end_offset=8, leader_epoch=2)
    ends = EpochEnds(EndOfEpoch(leader_epoch=2, end_offset=5))
    assert first_fetched_offset(asyncio.run(scenario())) == replica.log_end_offset == 5
    assert ends.asked == [2, 2]
