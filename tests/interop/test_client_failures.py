"""Three failures of aiokafka that do not heal, on processes of ours and of Apache Kafka: both give it the same answers.

docs/reference/client-failures.md describes them, and examples/client_failures shows them in virtual time. No broker
fails here. The coordinator moves as an operator moves it: by a reassignment to the same brokers in another order, and
an election of the preferred leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from understudy.clusters.processes.apache_kafka import SMALL_BROKER, ApacheKafka
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.foundation.cluster.identifiers import TopicPartition as Partition

pytestmark = pytest.mark.xdist_group("client failures")

BROKERS = (1, 2)
PROPERTIES = {
    **SMALL_BROKER,
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "auto.leader.rebalance.enable": "false",
}
OFFSETS = Partition("__consumer_offsets", 0)
ORDERS = TopicPartition("orders", 0)
PATIENCE_S = 60.0
NEVER_S = 5.0
"""Time for which a call that never returns is waited for. One that returns needs a few milliseconds."""


@pytest.fixture(scope="module", params=["Understudy", "Apache Kafka"])
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
        asyncio.run(asyncio.wait_for(send_ten(running.bootstrap), PATIENCE_S))
        yield running


async def send_ten(bootstrap: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
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

    found = asyncio.run(asyncio.wait_for(outcomes(), PATIENCE_S))
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

    before, by_a_new_client, *after = asyncio.run(asyncio.wait_for(offsets(), PATIENCE_S))
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
        await consumer.start()
        for _ in range(5):
            await consumer.getone()
        await consumer.commit({ORDERS: 1})
        await move_the_coordinator(cluster)
        assert await committed_by_a_new_client(cluster, "members") == 1
        stopping = asyncio.create_task(consumer.stop())
        done, _ = await asyncio.wait([stopping], timeout=NEVER_S)
        await consumer._client.close()  # stop() would do it last, and the sockets would stay open
        return bool(done)

    stopped = asyncio.run(asyncio.wait_for(has_stopped(), PATIENCE_S))
    print(f"stop() has returned within {NEVER_S:g} s:", stopped)
    assert not stopped
