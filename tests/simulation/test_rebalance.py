"""Automatic leader rebalance: preferred replicas are elected again after their broker has returned."""

from __future__ import annotations

import pytest

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import LeadershipWritten
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

ASSIGNMENT = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
INTERVAL_MS = 20_000


def has_preferred_leaders(cluster: SimulatedCluster) -> bool:
    return all(cluster.leader_id("orders", partition) == replicas[0] for partition, replicas in ASSIGNMENT.items())


def preferred_elections(cluster: SimulatedCluster) -> int:
    records = (decode_record(line).data for line in cluster.log_lines)
    return sum(isinstance(record, LeadershipWritten) and record.why == "preferred" for record in records)


def restart_late(cluster: SimulatedCluster, broker_id: int) -> None:
    """Kill a broker and start it after its session has expired: its replicas are in the ISR, and none is a leader."""
    cluster.broker(broker_id).kill()
    cluster.run_for(8_000)
    cluster.broker(broker_id).begin_start()
    cluster.settle()
    assert not has_preferred_leaders(cluster)


@pytest.mark.spec("AR-1", "AR-3")
def test_preferred_leaders_are_elected_within_an_interval_after_their_broker_has_returned() -> None:
    with SimulatedCluster(31, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ASSIGNMENT)
        cluster.settle()
        cluster.run_for(6_000)
        restarted = next(broker for broker in cluster.broker_ids if broker != cluster.controller_id())
        restart_late(cluster, restarted)
        cluster.run_for(INTERVAL_MS)
        assert has_preferred_leaders(cluster)
        assert preferred_elections(cluster) == 1, "one election for all partitions of the broker"
        cluster.run_for(3 * INTERVAL_MS)
        assert preferred_elections(cluster) == 1
        assert judge(cluster).problems == ()


@pytest.mark.spec("AR-1", "FO-14")
def test_a_new_controller_checks_the_leader_imbalance_five_seconds_after_its_failover() -> None:
    with SimulatedCluster(32, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ASSIGNMENT)
        cluster.settle()
        first = cluster.controller_id()
        assert first is not None
        restart_late(cluster, first)
        assert cluster.controller_id() != first
        cluster.run_for(5_500)
        assert has_preferred_leaders(cluster)
        assert judge(cluster).problems == ()


@pytest.mark.spec("AR-3")
@pytest.mark.parametrize(
    "settings", [{"auto.leader.rebalance.enable": "false"}, {"leader.imbalance.per.broker.percentage": "100"}]
)
def test_no_preferred_leader_is_elected_where_the_configuration_forbids_it(settings: dict[str, str]) -> None:
    with SimulatedCluster(33, brokers=3, settings=settings) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment=ASSIGNMENT)
        cluster.settle()
        restarted = next(broker for broker in cluster.broker_ids if broker != cluster.controller_id())
        restart_late(cluster, restarted)
        cluster.run_for(2 * INTERVAL_MS)
        assert not has_preferred_leaders(cluster)
        assert preferred_elections(cluster) == 0
