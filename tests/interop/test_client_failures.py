"""Five failures of aiokafka that do not heal, on processes of ours and of Apache Kafka: both give it the same answers.

docs/reference/client-failures.md describes them, and examples/client_failures shows them in virtual time. In the first
three no broker fails. The coordinator moves as an operator moves it: by a reassignment to the same brokers in another
order, and an election of the preferred leader. The last two follow from what a broker answers just after its start,
before a controller has sent it UpdateMetadata or all of it. `AbsentController` makes these moments last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from kazoo.client import KazooClient

from tests.shares import at_night
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.virtual.process_loop import waiting_line
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.identifiers import TopicPartition as Partition
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.znodes import BrokerIdZNode, ControllerEpochZNode, ControllerZNode

pytestmark = pytest.mark.xdist_group("client failures")

T = TypeVar("T")

BROKERS = (1, 2)
PROPERTIES = {
    **SMALL_BROKER,
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "auto.leader.rebalance.enable": "false",
}
OFFSETS = Partition("__consumer_offsets", 0)
ORDERS = TopicPartition("orders", 0)
PATIENCE_S = 60.0
NEVER_S = 5.0
"""Time for which a call that never returns is waited for. One that returns needs a few milliseconds."""
STARTED = 1
"""Id of the broker that runs while there is no controller."""
ABSENT = BrokerId(9)
"""Id of the broker that owns `/controller` and does not exist."""


@pytest.fixture(
    scope="module", params=["Understudy", pytest.param("Apache Kafka", marks=at_night("Apache Kafka stays as it is"))]
)
def cluster(
    request: pytest.FixtureRequest, kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """Two brokers with a topic of ten orders."""
    with LocalCluster(
        len(BROKERS),
        kafka_brokers=dict.fromkeys(BROKERS, kafka) if request.param == "Apache Kafka" else None,
        directory=tmp_path_factory.mktemp("failures"),
        properties=PROPERTIES,
    ) as running:
        running.create_topic("orders", replication_factor=2)
        run(send_ten(running.bootstrap))
        yield running


def run(client: Coroutine[Any, Any, T]) -> T:
    """Return what the coroutine returns; if it takes too long, fail with the line at which each of its tasks waits."""

    async def watched() -> T:
        task = asyncio.create_task(client)
        done, _ = await asyncio.wait([task], timeout=PATIENCE_S)
        waiting = [waiting_line(each) for each in asyncio.all_tasks() - {asyncio.current_task()}]
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=PATIENCE_S)
            pytest.fail(
                "\n  ".join([f"the client has not ended within {PATIENCE_S:g} s. Its tasks wait at:", *waiting])
            )
        return task.result()

    return asyncio.run(watched())


async def send_ten(bootstrap: str) -> None:
    """Send ten orders. Both replicas have them: a test may kill all brokers at once and start one of them first."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
        for number in range(10):
            await producer.send_and_wait("orders", b"%d" % number)


async def move_the_coordinator(cluster: LocalCluster) -> None:
    """Let the other broker lead the only partition of `__consumer_offsets`; the old leader runs on as its follower."""

    def move() -> None:
        old = cluster.leader(OFFSETS.topic, OFFSETS.partition).id
        new = next(broker for broker in BROKERS if broker != old)
        cluster.ask(cluster.admin.alter_partition_reassignments({OFFSETS: (new, old)}))
        cluster.ask(cluster.admin.elect_leaders([OFFSETS]))
        cluster.wait_until(lambda: cluster.leader_id(*OFFSETS) == new, f"{OFFSETS} is led by {new}")

    await asyncio.to_thread(move)


async def committed_by_a_new_client(cluster: LocalCluster, group: str) -> int:
    """Return what a client is answered that is made now. It waits until the next coordinator has loaded the group.

    Each attempt needs another client: one that finds the old coordinator, or the next one too early, fails as well.
    With auto commit it would also commit the end of the partition, from which it then reads.
    """
    settings = {"group_id": group, "enable_auto_commit": False}
    while True:
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **settings) as consumer:
            consumer.assign([ORDERS])
            found = await consumer.committed(ORDERS)
        if found is not None:
            return int(found)
        await asyncio.sleep(0.1)


def test_an_idempotent_producer_loses_its_sequence(cluster: LocalCluster) -> None:
    async def outcomes() -> list[str]:
        found = []
        settings = {"enable_idempotence": True, "max_request_size": 3_000_000}
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **settings) as producer:
            for value in (b"first", b"x" * 1_500_000, b"small", b"small", b"small"):
                try:
                    await producer.send_and_wait("orders", value)
                    found.append("sent")
                except KafkaError as error:
                    found.append(repr(error))
        return found

    found = run(outcomes())
    print("an idempotent producer:", *found, sep="\n  ")
    assert found == ["sent", "MessageSizeTooLargeError()"] + ["OutOfOrderSequenceNumber()"] * 3


def test_a_committed_offset_reads_as_none(cluster: LocalCluster) -> None:
    async def offsets() -> list[int | None]:
        group = {"group_id": "readers", "enable_auto_commit": False}
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap, **group) as consumer:
            consumer.assign([ORDERS])
            await consumer.commit({ORDERS: 5})
            found = [await consumer.committed(ORDERS)]
            await move_the_coordinator(cluster)
            found.append(await committed_by_a_new_client(cluster, "readers"))
            return [*found, await consumer.committed(ORDERS), await consumer.committed(ORDERS)]

    before, by_a_new_client, *after = run(offsets())
    print("committed() before the coordinator has moved:", before)
    print("committed() of a new client:", by_a_new_client, "; of the old client:", *after)
    assert (before, by_a_new_client, after) == (5, 5, [None, None])


def test_stop_never_returns(cluster: LocalCluster) -> None:
    """The last commit of a consumer that is closing is refused, because its coordinator has moved."""

    async def has_stopped() -> bool:
        settings = {
            "group_id": "members",
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 120_000,
            "heartbeat_interval_ms": 40_000,  # else a heartbeat may find the next coordinator before stop() is called
            "auto_commit_interval_ms": 100_000,
        }
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=cluster.bootstrap, **settings)
        try:
            await consumer.start()
            for _ in range(5):
                await consumer.getone()
            await consumer.commit({ORDERS: 1})
            await move_the_coordinator(cluster)
            assert await committed_by_a_new_client(cluster, "members") == 1
        finally:
            stopping = asyncio.create_task(consumer.stop())
            done, _ = await asyncio.wait([stopping], timeout=NEVER_S)
            await consumer._client.close()  # stop() would do it last, and the sockets would stay open
        return bool(done)

    stopped = run(has_stopped())
    print(f"stop() has returned within {NEVER_S:g} s:", stopped)
    assert not stopped


class Answer(NamedTuple):
    """An answer to Metadata about a topic that exists and one that does not."""

    brokers: tuple[int, ...]
    existing: Errors
    missing: Errors
    partitions: int


class AbsentController:
    """Owns `/controller` in the name of a broker that does not exist, while `STARTED` is the only broker that runs.

    So no broker is elected, and this one gets the controller's requests from this class alone. The methods block; call
    them in a thread while a client runs.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._zookeeper = KazooClient(cluster.zookeeper_connect)

    def take_over(self) -> None:
        """Kill all brokers, own `/controller`, and start one broker; return when it serves requests."""
        cluster = self._cluster
        for broker in cluster.brokers:
            broker.kill()
        self._zookeeper.start()
        cluster.wait_until(self._has_no_broker, "the sessions of all brokers have expired")
        self._zookeeper.create(ControllerZNode.path, ControllerZNode.encode(ABSENT, timestamp_ms=0), ephemeral=True)
        cluster.broker(STARTED).begin_start()
        cluster.wait_until(lambda: self._zookeeper.exists(BrokerIdZNode.path(STARTED)), "the broker has registered")
        data, self._registration = self._zookeeper.get(BrokerIdZNode.path(STARTED))
        self._listener = BrokerIdZNode.decode(BrokerId(STARTED), data).endpoints[0]
        cluster.wait_until(self._serves, "the broker serves requests")

    def release(self) -> None:
        """Give `/controller` free, start the brokers that do not run, and wait until all leaders are elected.

        Harmless if it was called before.
        """
        self._zookeeper.stop()
        self._zookeeper.close()
        for broker in self._cluster.brokers:
            if not broker.is_running:
                broker.start()
        self._cluster.settle()

    def send_live_brokers(self) -> None:
        """Send the first UpdateMetadata of a controller that has been elected: all live brokers, and no partition."""
        epoch, _ = self._zookeeper.get(ControllerEpochZNode.path)
        endpoint = UpdateMetadataEndpoint(
            host=self._listener.host, port=self._listener.port, listener=self._listener.listener
        )
        request = UpdateMetadataRequest(
            controller_id=ABSENT,
            controller_epoch=ControllerEpochZNode.decode(epoch),
            broker_epoch=self._registration.czxid,
            live_brokers=(UpdateMetadataBroker(id=STARTED, endpoints=(endpoint,)),),
        )
        assert self._ask(request, 8) == UpdateMetadataResponse()

    def metadata(self, version: int, *, may_create: bool) -> Answer:
        """Ask for `orders`, which ZooKeeper has, and for a topic that it did not have before the first question."""
        topics = tuple(MetadataRequestTopic(name=name) for name in ("orders", "payments"))
        answer = self._ask(MetadataRequest(topics=topics, allow_auto_topic_creation=may_create), version)
        assert isinstance(answer, MetadataResponse)
        errors = {topic.name: Errors(topic.error_code) for topic in answer.topics}
        partitions = sum(len(topic.partitions) for topic in answer.topics)
        return Answer(
            tuple(broker.node_id for broker in answer.brokers), errors["orders"], errors["payments"], partitions
        )

    def _has_no_broker(self) -> bool:
        return not self._zookeeper.exists(ControllerZNode.path) and not self._zookeeper.get_children("/brokers/ids")

    def _serves(self) -> bool:
        with suppress(ConnectionFailed, ConnectionLost):
            self._ask(MetadataRequest(topics=()), 1)
            return True
        return False

    def _ask(self, request: Message, version: int) -> Message:
        async def answer() -> Message:
            at = self._listener
            channel = RequestChannel(
                await SocketNetwork().connect(at.host, at.port, timeout_ms=5_000), client_id="controller"
            )
            try:
                return await channel.request(request, version, timeout_ms=15_000)
            finally:
                channel.close()

        return asyncio.run(answer())


@pytest.fixture
def absent_controller(cluster: LocalCluster) -> Iterator[AbsentController]:
    """A controller that a test can let take over; after the test the cluster is whole again."""
    absent = AbsentController(cluster)
    yield absent
    absent.release()


@pytest.mark.spec("MC-3", "TC-9")
def test_a_broker_without_update_metadata_answers_metadata_without_brokers(absent_controller: AbsentController) -> None:
    """A topic cannot be created on no brokers. The error says that, before the broker has looked into ZooKeeper."""
    absent_controller.take_over()
    allowed = Answer((), Errors.INVALID_REPLICATION_FACTOR, Errors.INVALID_REPLICATION_FACTOR, partitions=0)
    for version in range(13):
        assert absent_controller.metadata(version, may_create=True) == allowed, version
    refused = Answer((), Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_OR_PARTITION, partitions=0)
    for version in range(4, 13):
        assert absent_controller.metadata(version, may_create=False) == refused, version


@pytest.mark.spec("MC-3", "TC-9")
def test_a_broker_that_has_only_the_live_brokers_answers_leader_not_available(
    absent_controller: AbsentController,
) -> None:
    """A new controller sends the live brokers before it starts its state machines, and the partitions after it."""
    absent_controller.take_over()
    absent_controller.send_live_brokers()
    refused = Answer((STARTED,), Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_OR_PARTITION, partitions=0)
    for version in range(4, 13):
        assert absent_controller.metadata(version, may_create=False) == refused, version
    allowed = Answer((STARTED,), Errors.LEADER_NOT_AVAILABLE, Errors.LEADER_NOT_AVAILABLE, partitions=0)
    for version in range(13):
        assert absent_controller.metadata(version, may_create=True) == allowed, version


def test_a_client_without_brokers_finds_none(cluster: LocalCluster, absent_controller: AbsentController) -> None:
    """It has started at a broker without metadata, which has then ended."""

    async def outcomes() -> tuple[list[str], str]:
        await asyncio.to_thread(absent_controller.take_over)
        settings = {"bootstrap_servers": cluster.bootstrap, "acks": "all", "request_timeout_ms": 2_000}
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        cluster.broker(STARTED).kill()
        await asyncio.to_thread(absent_controller.release)
        lost = [await outcome(producer), await outcome(producer)]
        await producer.stop()
        async with AIOKafkaProducer(**settings) as new:
            return lost, await outcome(new)

    lost, of_a_new_client = run(outcomes())
    print("the client sends:", *lost, "; a new client:", of_a_new_client)
    assert lost == ["UnknownTopicOrPartitionError()"] * 2
    assert of_a_new_client == "sent"


async def outcome(producer: AIOKafkaProducer) -> str:
    try:
        await producer.send_and_wait("orders", b"order")
    except KafkaError as error:
        return repr(error)
    return "sent"


def test_a_topic_that_is_left_out_once_is_gone(cluster: LocalCluster, absent_controller: AbsentController) -> None:
    """The consumer would read again when its metadata is five minutes old."""

    async def records_read() -> tuple[bool, bool]:
        settings = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer("orders", **settings) as consumer:
            await consumer.getone()
            await asyncio.to_thread(absent_controller.take_over)
            await asyncio.to_thread(absent_controller.send_live_brokers)
            while consumer.assignment():
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(consumer.getone(), 0.1)
            await asyncio.to_thread(absent_controller.release)
            async with AIOKafkaConsumer("orders", **settings) as new:
                await new.getone()
            reading = asyncio.create_task(consumer.getone())
            done, _ = await asyncio.wait([reading], timeout=NEVER_S)
            reading.cancel()
            return bool(done), bool(consumer.assignment())

    reads, is_assigned = run(records_read())
    print(f"the consumer has read within {NEVER_S:g} s:", reads, "; it is assigned a partition:", is_assigned)
    assert not reads
    assert not is_assigned
