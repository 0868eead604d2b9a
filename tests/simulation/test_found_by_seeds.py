"""What random seeds have found, each as a scene of its own, so that it stays found."""

from __future__ import annotations

from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import ElectionLost
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge
from understudy.simulator.zookeeper import LostAnswer


def test_nobody_waits_for_ever_for_the_end_of_a_winner_who_is_gone_already() -> None:
    """Seed 135: all brokers are disconnected while one is elected and deposed; no watch tells them that nobody rules."""
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        for broker in cluster.brokers.values():
            cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, "/controller", applied=True))
        cluster.depose()
        waited = 0
        while cluster.zookeeper.lost_answers and waited < 200:
            cluster.run_for(1)
            waited += 1
        assert not cluster.zookeeper.lost_answers, "not everybody lost its answer"
        cluster.depose()
        cluster.settle(within_ms=10_000)
    lost = [decode_record(line).data for line in cluster.chronicle]
    assert ElectionLost(winner=-1) in lost, "nobody found the winner gone"
    assert judge(cluster).problems == ()
