"""The measurement of a partition's rates, on a simulated cluster."""

from __future__ import annotations

import pytest

from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.kafka_tools.planning.plan_answer import BadPlan
from understudy.kafka_tools.planning.rate_measurement import MeasuredRate, measure


def _measure(cluster: SimulatedCluster, replication_factor: int) -> MeasuredRate:
    return cluster.ask(
        measure(
            cluster.client_network,
            cluster.simulator.clock,
            [f"{broker.node.name}:{PORT}" for broker in cluster.brokers],
            replication_factor=replication_factor,
            message_bytes=100,
            batch_bytes=1_000,
            seconds=0.2,
        )
    )


def test_both_rates_are_measured_and_the_topic_is_deleted() -> None:
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=4, replication_factor=2)
        found = _measure(cluster, 3)
        assert found.producer_rate > 0
        assert found.consumer_rate > found.producer_rate
        assert (found.brokers, found.partitions, found.replicas) == (3, 4, 8)
        assert {topic.name for topic in cluster.ask(cluster.admin.metadata()).topics} == {"orders"}


def test_a_cluster_that_cannot_have_the_topic_is_an_error() -> None:
    with SimulatedCluster(1, brokers=2) as cluster:
        cluster.start()
        with pytest.raises(BadPlan, match="the topic of the measurement cannot be created: INVALID_REPLICATION_FACTOR"):
            _measure(cluster, 3)
