"""Automatic preferred elections while a reassignment cannot end (KAFKA-10149).

The scenarios are from `testAutoPreferredReplicaLeaderElectionWith{Same,Other}…Reassign…` in Kafka's
`ControllerIntegrationTest`.
"""

from __future__ import annotations

import pytest

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SETTINGS, SimulatedCluster
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.admin_znodes import ReassignPartitionsZNode
from understudy.trials.seeds.judgement import judge

INTERVAL_MS = 1_000 * int(SETTINGS["leader.imbalance.check.interval.seconds"])
MOVED, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def assignment(cluster: SimulatedCluster, partition: TopicPartition) -> ReplicaAssignment:
    return cluster.znodes.topics()[partition.topic].partitions[partition]


def reassign_by_znode(cluster: SimulatedCluster, target: tuple[BrokerId, ...]) -> None:
    """Request the reassignment by znode: AlterPartitionReassignments refuses brokers that are not live (RA-3)."""
    assert cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({MOVED: target}))


def kill_until_session_ends(cluster: SimulatedCluster, broker: BrokerId) -> SimulatedBroker:
    dead = cluster.broker(broker)
    dead.kill()
    cluster.run_for(8_000)
    return dead


@pytest.mark.spec("AR-3", "RA-13", "KAFKA-10149")
@pytest.mark.parametrize("is_first_of_target_alive", [True, False])
def test_the_first_target_replica_of_a_stuck_reassignment_is_elected_if_it_is_in_sync(
    is_first_of_target_alive: bool,
) -> None:
    with SimulatedCluster(41, brokers=5) as cluster:
        cluster.start()
        controller = cluster.controller_id()
        assert controller is not None
        free, missing = [number for number in reversed(cluster.broker_ids) if number != controller][:2]
        first, second, *_ = [number for number in cluster.broker_ids if number not in (free, missing)]
        cluster.create_topic("orders", assignment={0: [first, second], 1: [second, first]})
        cluster.settle()
        dead = kill_until_session_ends(cluster, missing)
        reassign_by_znode(cluster, (free, missing) if is_first_of_target_alive else (missing, free))
        cluster.run_for(5_000)
        assert assignment(cluster, MOVED).is_being_reassigned
        assert sorted(cluster.isr("orders", 0)) == sorted([first, second, free])
        assert cluster.leader_id("orders", 0) == first
        cluster.run_for(2 * INTERVAL_MS)
        assert cluster.leader_id("orders", 0) == (free if is_first_of_target_alive else first)
        assert cluster.leader_id("orders", 1) == second
        assert assignment(cluster, MOVED).is_being_reassigned
        dead.begin_start()
        cluster.run_for(2 * INTERVAL_MS)
        cluster.settle()
        target = (free, missing) if is_first_of_target_alive else (missing, free)
        assert assignment(cluster, MOVED) == ReplicaAssignment(target)
        assert cluster.leader_id("orders", 0) == target[0]
    assert judge(cluster).problems == ()


@pytest.mark.spec("AR-3", "KAFKA-10149")
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_stuck_reassignment_does_not_delay_the_rebalance_of_other_partitions(is_cancelled: bool) -> None:
    with SimulatedCluster(42, brokers=5) as cluster:
        cluster.start()
        controller = cluster.controller_id()
        assert controller is not None
        returning, missing, third, fourth = [number for number in cluster.broker_ids if number != controller]
        cluster.create_topic("orders", assignment={0: [third, fourth], 1: [returning, third]})
        cluster.settle()
        dead = kill_until_session_ends(cluster, missing)
        reassign_by_znode(cluster, (third, missing))
        kill_until_session_ends(cluster, returning).begin_start()
        cluster.run_for(3_000)
        assert cluster.leader_id("orders", 1) == third
        assert assignment(cluster, MOVED).is_being_reassigned
        cluster.run_for(2 * INTERVAL_MS)
        assert cluster.leader_id("orders", 1) == returning
        assert assignment(cluster, MOVED).is_being_reassigned
        if is_cancelled:
            assert cluster.ask(cluster.admin.alter_partition_reassignments({MOVED: None})) == {MOVED: None}
            cluster.run_for(2_000)
            assert assignment(cluster, MOVED) == ReplicaAssignment((third, fourth))
        dead.begin_start()
        cluster.run_for(2 * INTERVAL_MS)
        cluster.settle()
        wanted = (third, fourth) if is_cancelled else (third, missing)
        assert assignment(cluster, MOVED) == ReplicaAssignment(wanted)
        assert (cluster.leader_id("orders", 0), cluster.leader_id("orders", 1)) == (third, returning)
    assert judge(cluster).problems == ()
