"""`ProducerInBackground`: it produces while a broker is killed, and finds what is missing afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.producer_in_background import Delivered, ProducerInBackground

TOPIC, PARTITIONS = "orders", 2


def test_acknowledged_records_are_found_again_after_a_broker_was_killed_and_missing_ones_are_reported(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    with LocalCluster(2, zookeeper=zookeeper, directory=tmp_path / "run", session_timeout_ms=3_000) as cluster:
        admin = AdminClient(SocketNetwork(), [broker.address for broker in cluster.brokers])

        async def create() -> None:
            await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=2)

        asyncio.run(create())
        with ProducerInBackground([broker.address for broker in cluster.brokers], TOPIC, PARTITIONS) as producer:
            producer.start()
            cluster.wait_until(lambda: producer.acknowledged > 50, "records are acknowledged")
            killed = cluster.controller()
            killed.kill()
            before = producer.acknowledged
            cluster.wait_until(lambda: producer.acknowledged > before + 50, "records are acknowledged again")
            killed.start()
            cluster.settle()
        acknowledged = producer.acknowledged
        assert producer.read_again() == Delivered(acknowledged, (), ())
        asyncio.run(admin.delete_topics(TOPIC))
        # The marker goes last: as long as it is there, the topic cannot be created again.
        cluster.wait_until(lambda: not cluster.view.picture().topics_to_delete, "the topic is deleted")
        asyncio.run(create())
        assert len(producer.read_again().missing) == acknowledged
