"""Unmodified transactional clients against broker processes, which coordinate no transactions: each ends at once.

None of them may wait for a coordinator: a client that does never returns, or returns a timeout.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import KafkaException, Producer

from understudy.brokers.apis.no_transactions import NO_TRANSACTIONS
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster

with warnings.catch_warnings():
    # As in tests/clients/clients.py.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

pytestmark = pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")

LONG_S = 300
"""Far more than a client needs that ends at once."""


@pytest.fixture(scope="module")
def cluster(zookeeper: EmbeddedZooKeeper) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, zookeeper=zookeeper, session_timeout_ms=30_000) as cluster:
        yield cluster
        topics = cluster.view.run(AdminClient(SocketNetwork(), [cluster.bootstrap]).metadata()).topics
        assert topics == (), "no topic is created for a coordinator that there is not"


def test_librdkafka_ends_with_the_sentence(cluster: LocalCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "t"})
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(LONG_S)
    error = raised.value.args[0]
    assert (error.fatal(), error.retriable()) == (True, False)
    assert NO_TRANSACTIONS in error.str()


def test_kafka_python_ends_without_any_text_of_the_broker(cluster: LocalCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="t")
    try:
        with pytest.raises(KafkaError, match=r"unexpected error.*UnsupportedVersion"):
            producer.init_transactions()
    finally:
        producer.close(timeout=1)


def test_aiokafka_ends_without_any_text_of_the_broker(cluster: LocalCluster) -> None:
    async def scenario() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id="t")
        try:
            with pytest.raises(AIOKafkaError, match="UnsupportedVersion"):
                await asyncio.wait_for(producer.start(), LONG_S)
        finally:
            await producer.stop()

    asyncio.run(scenario())
