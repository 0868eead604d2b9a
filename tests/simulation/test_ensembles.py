"""Brokers on a ZooKeeper of three servers, under faults of servers and brokers that are drawn: the invariants hold."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.trials.seeds.judgement import judge

SERVERS = (1, 2, 3)
FAULTS_MS = 20_000.0


def draw_fault(cluster: SimulatedCluster, draw: random.Random) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a fault of one server or one broker, and its end."""
    server, broker = draw.choice(SERVERS), cluster.broker(draw.choice(cluster.broker_ids))
    others = [other for other in SERVERS if other != server]
    match draw.choice(("kill", "pause", "cut", "cut from broker", "kill broker", "pause broker")):
        case "kill":
            return lambda: cluster.zookeeper.stop(server), lambda: cluster.start_zookeeper(server)
        case "pause":
            return lambda: cluster.zookeeper.pause(server), lambda: cluster.resume_zookeeper(server)
        case "cut":
            return (
                lambda: cluster.cut_zookeeper_server(server, others, is_cut=True),
                lambda: cluster.cut_zookeeper_server(server, others, is_cut=False),
            )
        case "cut from broker":
            return (
                lambda: cluster.cut_from_zookeeper(broker.id, servers=[server]),
                lambda: cluster.heal_zookeeper(broker.id, [server]),
            )
        case "kill broker":
            return lambda: broker.kill() if broker.is_running else None, broker.begin_start
        case _:
            return lambda: broker.pause() if broker.is_running else None, broker.resume_if_paused


@pytest.mark.parametrize("seed", range(8))
def test_the_invariants_hold_on_an_ensemble(seed: int) -> None:
    draw = random.Random(seed)
    with SimulatedCluster(seed, brokers=3, zookeepers=len(SERVERS)) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=4, replication_factor=3)
        cluster.stop_zookeeper(*cluster.zookeeper_servers("leader"))
        at_ms = 3_000.0
        while at_ms < FAULTS_MS:
            begin, end = draw_fault(cluster, draw)
            cluster.after(at_ms, begin)
            cluster.after(at_ms + draw.uniform(500, 8_000), end)
            at_ms += draw.uniform(500, 3_000)
        cluster.run_for(FAULTS_MS + 8_000)
        cluster.heal()
        cluster.settle()
        cluster.create_topic("afterwards", partitions=1, replication_factor=3)
        cluster.settle()
        leader = cluster.zookeeper.quorum.leader()
    assert judge(cluster).problems == ()
    assert leader is not None
    assert cluster.zookeeper.zxid >> 32 > 1, "no leader of the ensemble was replaced"
