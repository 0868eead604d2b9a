"""Tests of Fetch in sessions (KIP-227): reads, answers, waiting, and what leaders conclude from it.

`Replicas` compares a leader whose followers fetch in sessions with one whose followers name everything each time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

import pytest
from msgspec.structs import replace

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import batch
from tests.brokers.parts import ME, ORDERS, OTHER, THIRD, apply_leader_and_isr, leader_and_isr, state
from tests.brokers.replication.test_isr_manager import Queue
from understudy.brokers.apis import fetch, fetch_reading
from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.replication.fetch_session import FINAL_EPOCH, RequestedPartition
from understudy.brokers.replication.fetch_session_handler import FetchedPartition, FetchSessionHandler
from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.replica_fetcher import fetch_request
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
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

CONSUMER = -1
ANOTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAw")
PARTITIONS = 4
LEADER_EPOCH = 5


def orders(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within_seconds() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(within_seconds())


async def next_steps() -> None:
    """Let every task that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


class SessionHarness(BrokerHarness):
    """Broker 1, leader of orders-0 to orders-3; `read` holds the partitions that were read since it was emptied."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, isr: tuple[int, ...] = (ME, OTHER)) -> None:
        super().__init__()
        self.read: list[int] = []
        lead_all(self, isr)
        original = fetch_reading.partition_error

        def noted(services: BrokerServices, requested: RequestedPartition, reader: fetch_reading.FetchReader) -> Errors:
            self.read.append(requested.fetch.partition)
            return original(services, requested, reader)

        monkeypatch.setattr(fetch_reading, "partition_error", noted)

    async def fetch(
        self,
        session: tuple[int, int],
        offsets: Mapping[int, int],
        *,
        follower: int = OTHER,
        max_wait_ms: int = 0,
        version: int = 17,
        topic_id: TopicId = ORDERS,
    ) -> FetchResponse:
        """Fetch in a session, given by id and epoch; by partition the offsets that the request names."""
        self.read.clear()
        partitions = tuple(
            FetchPartition(
                partition=partition, current_leader_epoch=LEADER_EPOCH, fetch_offset=offset, partition_max_bytes=10_000
            )
            for partition, offset in offsets.items()
        )
        request = FetchRequest(
            replica_id=follower,
            replica_state=FetchReplicaState(replica_id=follower),
            session_id=session[0],
            session_epoch=session[1],
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=(FetchTopic(topic="orders", topic_id=topic_id, partitions=partitions),) if partitions else (),
        )
        return await fetch.handle(self.services, request, self.context(version))

    async def idle_session(self, follower: int = OTHER) -> int:
        """Open a session with all partitions, and fetch until they are settled; return its id."""
        opened = await self.fetch((0, 0), dict.fromkeys(range(PARTITIONS), 0), follower=follower)
        assert partitions_of(opened) == list(range(PARTITIONS))
        assert partitions_of(await self.fetch((opened.session_id, 1), {}, follower=follower)) == []
        return opened.session_id

    def append(self, partition: int) -> None:
        led = self.replicas.partitions[orders(partition)]
        self.replicas.append_as_leader(led, batch(b"value"), required_acks=1)


def lead_all(harness: BrokerHarness, isr: tuple[int, ...] = (ME, OTHER)) -> None:
    states = (state(partition, leader_epoch=LEADER_EPOCH, isr=isr) for partition in range(PARTITIONS))
    apply_leader_and_isr(harness.replicas, leader_and_isr(*states))
    harness.update_metadata({"orders": dict.fromkeys(range(PARTITIONS), ME)})


def partitions_of(response: FetchResponse) -> list[int]:
    return [data.partition_index for topic in response.responses for data in topic.partitions]


def errors_of(response: FetchResponse) -> list[Errors]:
    return [Errors(data.error_code) for topic in response.responses for data in topic.partitions]


# ------------------------------------------------------------------ reads and answers


def test_fetch_of_an_idle_follower_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        assert harness.read == [0, 1, 2, 3], "the second Fetch still reads everything once"
        response = await harness.fetch((session_id, 2), {})
        assert (harness.read, partitions_of(response), response.session_id) == ([], [], session_id)

    run(scenario)


def test_records_of_one_partition_are_read_and_answered_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        harness.append(2)
        response = await harness.fetch((session_id, 2), {})
        assert (harness.read, partitions_of(response)) == ([2], [2])
        assert response.responses[0].partitions[0].records
        response = await harness.fetch((session_id, 3), {2: 1})
        assert partitions_of(response) == [2], "its high watermark has moved"
        assert (response.responses[0].partitions[0].high_watermark, harness.read) == (1, [2])
        await harness.fetch((session_id, 4), {})
        assert harness.read == []

    run(scenario)


def test_records_that_a_follower_has_not_taken_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        harness.append(2)
        for epoch in (2, 3):
            response = await harness.fetch((session_id, epoch), {})
            assert response.responses[0].partitions[0].records

    run(scenario)


def test_consumers_session_names_only_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session(CONSUMER)
        harness.append(1)
        assert partitions_of(await harness.fetch((session_id, 2), {}, follower=CONSUMER)) == []
        await harness.fetch((0, -1), {1: 1})  # the follower has it
        response = await harness.fetch((session_id, 3), {}, follower=CONSUMER)
        assert partitions_of(response) == [1]
        assert response.responses[0].partitions[0].records

    run(scenario)


def test_log_start_offset_that_rises_makes_a_partition_part_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        harness.append(2)
        await harness.fetch((0, -1), {2: 1})
        opened = await harness.fetch((0, 0), {0: 0, 2: 1})
        session_id = opened.session_id
        await harness.fetch((session_id, 1), {})
        harness.replicas.partitions[orders(2)].log.maybe_increment_log_start_offset(1)
        harness.replicas.log_start_offset_raised(orders(2))
        response = await harness.fetch((session_id, 2), {})
        assert (partitions_of(response), harness.read) == ([2], [2])
        assert response.responses[0].partitions[0].log_start_offset == 1

    run(scenario)


@pytest.mark.spec("BK-13")
def test_partition_in_error_is_answered_each_time_until_it_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        apply_leader_and_isr(harness.replicas, leader_and_isr(state(1, leader=OTHER, leader_epoch=6)))
        for epoch in (2, 3):
            response = await harness.fetch((session_id, epoch), {}, max_wait_ms=20_000)
            assert (partitions_of(response), errors_of(response)) == ([1], [Errors.FENCED_LEADER_EPOCH])
            assert harness.read == [1]

    run(scenario)


def test_partition_that_is_deleted_from_the_metadata_cache_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        harness.update_metadata({"orders": {3: -2}})
        response = await harness.fetch((session_id, 2), {})
        assert (partitions_of(response), errors_of(response)) == ([3], [Errors.UNKNOWN_TOPIC_OR_PARTITION])

    run(scenario)


def test_fetch_does_not_count_for_a_partition_that_it_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settled partition whose error follows from the metadata cache alone: its follower is not caught up by that."""

    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        followers = [harness.replicas.partitions[orders(partition)].followers for partition in (2, 3)]
        harness.update_metadata({"orders": {3: -2}})
        harness.clock.now_ms += 500
        await harness.fetch((session_id, 2), {})
        assert [known[OTHER].caught_up_ms for known in followers] == [1_500, 1_000]

    run(scenario)


def test_partition_that_was_created_again_with_another_topic_id_is_not_read_for_the_former_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        gone = StopReplicaPartitionState(partition_index=2, leader_epoch=-2, delete_partition=True)
        topics = (StopReplicaTopicState(topic_name="orders", partition_states=(gone,)),)
        harness.replicas.stop_replicas(StopReplicaRequest(topic_states=topics))
        again = leader_and_isr(state(2, leader_epoch=LEADER_EPOCH), topic_id=ANOTHER_ID)
        apply_leader_and_isr(harness.replicas, again)
        harness.append(2)
        response = await harness.fetch((session_id, 2), {})
        assert (partitions_of(response), errors_of(response)) == ([2], [Errors.INCONSISTENT_TOPIC_ID])
        assert not harness.replicas.partitions[orders(2)].followers, "nothing follows from a Fetch of the former topic"

    run(scenario)


@pytest.mark.parametrize(
    ("session_id_differs", "epoch", "version", "error"),
    [
        (1, 2, 17, Errors.FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, 17, Errors.INVALID_FETCH_SESSION_EPOCH),
        (0, 3, 17, Errors.INVALID_FETCH_SESSION_EPOCH),
        (0, 2, 12, Errors.FETCH_SESSION_TOPIC_ID_ERROR),
        (0, 2, 17, Errors.NONE),
    ],
)
def test_request_that_does_not_continue_the_session_is_refused_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, session_id_differs: int, epoch: int, version: int, error: Errors
) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        response = await harness.fetch((session_id + session_id_differs, epoch), {}, version=version)
        assert (response.error_code, partitions_of(response)) == (error, [])
        assert response.session_id == (0 if error else session_id)

    run(scenario)


# ------------------------------------------------------------------ waiting


def test_high_watermark_that_rises_ends_no_followers_wait_and_comes_with_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch, isr=(ME, OTHER, THIRD))
        harness.append(2)
        opened = await harness.fetch((0, 0), {0: 0, 1: 0, 2: 1}, follower=THIRD)
        session_id = opened.session_id
        await harness.fetch((session_id, 1), {}, follower=THIRD)
        waiting = asyncio.create_task(harness.fetch((session_id, 2), {}, follower=THIRD, max_wait_ms=20_000))
        await next_steps()
        harness.read.clear()
        partition = harness.replicas.partitions[orders(2)]
        harness.services.isr.follower_fetched(partition, OTHER, 1, leader_epoch=LEADER_EPOCH)
        assert partition.log.high_watermark == 1
        await next_steps()
        assert not waiting.done()
        assert harness.read == [2], "only what has changed is read again"
        harness.append(1)
        assert partitions_of(await waiting) == [1, 2]
        await harness.fetch((session_id, 3), {1: 1}, follower=THIRD)
        assert 2 not in harness.read, "the high watermark has been sent"

    run(scenario)


def test_waiting_fetch_reads_only_the_partition_with_new_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        waiting = asyncio.create_task(harness.fetch((session_id, 2), {}, max_wait_ms=20_000))
        await next_steps()
        assert (waiting.done(), harness.read) == (False, [])
        harness.append(3)
        assert partitions_of(await waiting) == [3]
        assert harness.read == [3]

    run(scenario)


def test_cancelled_fetch_loses_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        waiting = asyncio.create_task(harness.fetch((session_id, 2), {}, max_wait_ms=20_000))
        await next_steps()
        harness.append(3)
        waiting.cancel()  # as when the connection is closed
        await asyncio.gather(waiting, return_exceptions=True)
        assert partitions_of(await harness.fetch((session_id, 3), {})) == [3]

    run(scenario)


def test_waiting_fetch_ends_when_its_session_goes_on_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        harness = SessionHarness(monkeypatch)
        session_id = await harness.idle_session()
        first = asyncio.create_task(harness.fetch((session_id, 2), {}, max_wait_ms=20_000))
        await next_steps()
        second = asyncio.create_task(harness.fetch((session_id, 3), {}, max_wait_ms=20_000))
        assert (await first).error_code == Errors.INVALID_FETCH_SESSION_EPOCH
        assert not second.done()
        closing = await harness.fetch((session_id, 0), {0: 0})
        assert closing.session_id not in (0, session_id)
        assert (await second).error_code == Errors.NONE
        assert harness.services.fetch_sessions.get(session_id) is None

    run(scenario)


# ------------------------------------------------------------------ what leaders conclude


class Replica:
    """A follower with records of its own, which fetches in a session or names everything each time."""

    def __init__(self, broker_id: int, *, in_session: bool) -> None:
        self.broker_id = broker_id
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.handler = FetchSessionHandler(ME)
        self.in_session = in_session
        self.high_watermarks: dict[int, int] = {}
        self.leader_epochs = dict.fromkeys(range(PARTITIONS), LEADER_EPOCH)

    async def fetch(self, harness: BrokerHarness, *, left_out: int, is_lost: bool) -> None:
        """Fetch all partitions but one; take over the answer, unless it is lost."""
        wanted: dict[TopicPartition, FetchedPartition | None] = {
            orders(partition): None
            if partition == left_out
            else FetchedPartition(
                ORDERS,
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=self.leader_epochs[partition],
                    fetch_offset=end,
                    log_start_offset=0,
                    partition_max_bytes=200,
                ),
            )
            for partition, end in self.ends.items()
        }
        if not self.in_session:
            self.handler = FetchSessionHandler(ME)
        data = self.handler.build(wanted)
        request, version = fetch_request(data, broker_id=self.broker_id, broker_epoch=9, config=KafkaConfig())
        request = replace(request, max_bytes=10_000, max_wait_ms=0)
        if not self.in_session:
            request = replace(request, session_epoch=FINAL_EPOCH)
        response = await fetch.handle(harness.services, request, harness.context(version))
        if is_lost:
            return self.handler.handle_error()
        answered = self.handler.handle_response(response, version)
        assert answered is not None
        for name, found in answered.items():
            if found.error_code == Errors.NONE:
                self.high_watermarks[name.partition] = found.high_watermark
                for each in batches(found.records or b""):
                    self.ends[name.partition] = each.header.last_offset + 1
        return None


class Replicas:
    """A leader with followers 2 and 3, and what it concludes from their Fetches."""

    def __init__(self, *, in_session: bool) -> None:
        self.harness = BrokerHarness()
        self.queue = Queue()
        self.harness.services.isr.alter_partitions = self.queue  # type: ignore[assignment]  # a fake of what it uses
        lead_all(self.harness)
        self.followers = {broker: Replica(broker, in_session=in_session) for broker in (OTHER, THIRD)}

    @property
    def partitions(self) -> list[Partition]:
        return [self.harness.replicas.partitions[orders(partition)] for partition in range(PARTITIONS)]

    async def step(self, seed: float) -> None:
        """Do one of the things that happen to replicas; the same for the same seed."""
        source = random.Random(seed)
        partition = self.partitions[source.randrange(PARTITIONS)]
        follower = self.followers[source.choice((OTHER, THIRD))]
        self.harness.clock.now_ms += source.choice((1, 10, 500, 500, 500, 9_000))
        match source.randrange(16):
            case 0 | 1 | 2:
                if partition.is_leader:
                    self.harness.replicas.append_as_leader(partition, batch(b"v" * 90), required_acks=1)
            case 3:
                self.harness.services.isr.check_isrs()
            case 4 | 5 if self.queue.changes:
                self._answer(source.random() < 0.7)
            case 6:
                epoch = partition.leader_epoch + 1
                isr = (ME, OTHER) if source.random() < 0.5 else (ME,)
                apply_leader_and_isr(
                    self.harness.replicas,
                    leader_and_isr(state(partition.topic_partition.partition, leader_epoch=epoch, isr=isr)),
                    now_ms=self.harness.clock.now_ms,
                )
            case 7:
                # The LeaderAndIsr with new leader epochs reaches the follower.
                for number, led in enumerate(self.partitions):
                    follower.leader_epochs[number] = led.leader_epoch
            case 8:
                follower.ends[source.randrange(PARTITIONS)] = 0  # its disk was lost
            case _:
                left_out = source.randrange(3 * PARTITIONS)
                await follower.fetch(self.harness, left_out=left_out, is_lost=source.random() < 0.1)
        # Sessions read partitions in another order, in which nothing else differs.
        self.queue.changes.sort(key=lambda change: change.topic_partition)

    def _answer(self, is_accepted: bool) -> None:
        change = self.queue.changes.pop(0)
        proposal = change.proposal
        data = AlterPartitionResponsePartitionData(
            leader_epoch=proposal.leader_epoch, isr=proposal.isr, partition_epoch=proposal.partition_epoch + 1
        )
        error = Errors.NONE if is_accepted else Errors.INELIGIBLE_REPLICA
        self.harness.services.isr._on_answer(change, error, data)

    def concluded(self) -> list[object]:
        """What the leader knows of its followers and concludes for its partitions, and what they have received."""
        now_ms, proposals = self.harness.clock.now_ms, self.queue.changes
        return [
            now_ms,
            [
                (
                    led.state.isr,
                    led.state.proposal,
                    led.log.high_watermark,
                    led.log.log_end_offset,
                    {broker: known.current for broker, known in led.followers.items()},
                )
                for led in self.partitions
            ],
            [change.proposal for change in proposals],
            [(replica.ends, replica.high_watermarks) for replica in self.followers.values()],
        ]


@pytest.mark.spec("IS-1", "IS-2")
@pytest.mark.parametrize("seed", range(25))
def test_sessions_lead_to_the_same_conclusions_as_requests_that_name_everything(seed: int) -> None:
    async def scenario() -> None:
        with_sessions, without = Replicas(in_session=True), Replicas(in_session=False)
        settled = 0
        for number in range(300):
            for replicas in (with_sessions, without):
                await replicas.step(seed * 1_000 + number)
            assert with_sessions.concluded() == without.concluded(), f"after step {number}"
            settled += sum(
                known.session is not None for led in with_sessions.partitions for known in led.followers.values()
            )
        assert settled > 100, "Fetches counted without being noted for each partition"

    run(scenario)
