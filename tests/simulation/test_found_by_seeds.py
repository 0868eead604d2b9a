"""What random seeds have found, each as a scene of its own, so that it stays found."""

from __future__ import annotations

from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import ElectionLost
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge
from understudy.simulator.zookeeper import LostAnswer


def _both_lose_the_race(seed: int) -> bool:
    """Two brokers race and are both disconnected before they learn who won; the winner is deposed meanwhile.

    Whether it came to that: which of them is how far when the other wins depends on the seed.
    """
    with SimulatedCluster(seed, brokers=2) as cluster:
        cluster.start()
        for broker in cluster.brokers.values():
            cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, "/controller", applied=True))
        cluster.depose()
        cluster.run_for(15)
        if cluster.zookeeper.lost_answers:
            return False
        cluster.depose()
        cluster.settle(within_ms=10_000)
    assert judge(cluster).problems == ()
    return ElectionLost(winner=-1) in [decode_record(line).data for line in cluster.chronicle]


def test_nobody_waits_for_ever_for_the_end_of_a_winner_who_is_gone_already() -> None:
    """Seed 135: no watch told the brokers that nobody ruled, because it was armed after the fact."""
    assert sum(_both_lose_the_race(seed) for seed in range(40)) >= 3, "the scene is hardly ever played"


def test_a_controller_whose_session_ends_while_it_shuts_down_leaves_in_peace() -> None:
    """Seed 243: stopped in the middle of its takeover, it recorded an empty context as what it believes of the cluster; and
    Expire swept away the event that ends the queue, so that it never left."""
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        for broker in cluster.brokers.values():
            broker.arm("notifications.after_write", "pause", resume_after_ms=9_000)
        cluster.depose()
        cluster.run_for(1_000)
        paused = [broker for broker in cluster.brokers.values() if broker.paused]
        assert len(paused) == 1
        paused[0].stop()
        cluster.run_for(16_000)
        assert not paused[0].alive
        cluster.settle()
    assert judge(cluster).problems == ()
