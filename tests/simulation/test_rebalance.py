"""Leaderships that have drifted come back by themselves, whoever is controller by then."""

from __future__ import annotations

import pytest

from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import LeadershipWritten
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge

HOME = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
INTERVAL_MS = 20_000


def at_home(cluster: SimulatedCluster) -> bool:
    return all(cluster.leader_id("orders", partition) == replicas[0] for partition, replicas in HOME.items())


def preferred_elections(cluster: SimulatedCluster) -> int:
    records = (decode_record(line).data for line in cluster.log_lines)
    return sum(isinstance(record, LeadershipWritten) and record.why == "preferred" for record in records)


def drifted(cluster: SimulatedCluster, victim: int) -> None:
    """`victim` dies and comes back: it is in sync, and leads nothing."""
    cluster.broker(victim).kill()
    cluster.run_for(8_000)
    cluster.broker(victim).begin_start()
    cluster.settle()
    assert not at_home(cluster)


@pytest.mark.spec("AR-1", "AR-3")
def test_what_a_broker_lost_by_dying_returns_to_it_within_an_interval() -> None:
    with SimulatedCluster(31, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=HOME)
        cluster.settle()
        cluster.run_for(6_000)
        victim = next(broker for broker in cluster.broker_ids if broker != cluster.controller_id())
        drifted(cluster, victim)
        cluster.run_for(INTERVAL_MS)
        assert at_home(cluster)
        assert preferred_elections(cluster) == 1, "one batch, for the one broker that was away"
        cluster.run_for(3 * INTERVAL_MS)
        assert preferred_elections(cluster) == 1
        assert judge(cluster).problems == ()


@pytest.mark.spec("AR-1", "FO-14")
def test_the_successor_of_the_controller_looks_five_seconds_after_it_has_taken_over() -> None:
    with SimulatedCluster(32, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=HOME)
        cluster.settle()
        first = cluster.controller_id()
        assert first is not None
        drifted(cluster, first)
        assert cluster.controller_id() != first
        cluster.run_for(5_500)
        assert at_home(cluster)
        assert judge(cluster).problems == ()


@pytest.mark.spec("AR-3")
@pytest.mark.parametrize(
    "settings", [{"auto.leader.rebalance.enable": "false"}, {"leader.imbalance.per.broker.percentage": "100"}]
)
def test_what_is_configured_decides(settings: dict[str, str]) -> None:
    with SimulatedCluster(33, brokers=3, settings=settings) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=HOME)
        cluster.settle()
        victim = next(broker for broker in cluster.broker_ids if broker != cluster.controller_id())
        drifted(cluster, victim)
        cluster.run_for(2 * INTERVAL_MS)
        assert not at_home(cluster)
        assert preferred_elections(cluster) == 0
