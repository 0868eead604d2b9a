"""Tests of the logs that are read from the simulated brokers that lead the partitions."""

from __future__ import annotations

import random

from understudy.clusters.clients.batching_producer import BatchingProducer, ProducerSettings
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.testing.simulated_tests.verdict.leader_logs import leader_logs

ORDERS = TopicPartition("orders", 0)
SEED = 5
"""Seed in which the restarted leader registers in ZooKeeper before its old session ends, and stays the leader."""


def test_a_leader_that_was_restarted_has_every_record_before_its_followers_fetch() -> None:
    """It reads the high watermark of its last checkpoint, which is behind what all in-sync replicas have."""
    with SimulatedCluster(SEED, brokers=2) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=1, replication_factor=2)
        settings = ProducerSettings(bootstrap=cluster.bootstrap, client_id="shop")
        clock = cluster.simulator.clock
        producer = BatchingProducer(cluster.client_network, clock, "orders", settings, random.Random(1))

        async def send() -> None:
            for number in range(5):
                await producer.send(b"key", b"order %d" % number)
            await producer.flush()

        cluster.begin(send())
        cluster.run_for(1_000)
        leader = cluster.leader(*ORDERS)
        leader.kill()
        cluster.run_for(100)
        leader.begin_start()
        high_watermarks: list[int] = []
        while 5 not in high_watermarks and cluster.now_ms < 20_000:
            cluster.run_for(1)
            if leader.instance is not None and (replica := leader.instance.hosted.get(ORDERS)) is not None:
                assert cluster.leader(*ORDERS) is leader
                high_watermarks.append(replica.log.high_watermark)
                assert len(leader_logs(cluster)[ORDERS].records) == 5
        assert set(high_watermarks) == {0, 5}
