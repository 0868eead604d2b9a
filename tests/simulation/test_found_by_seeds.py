"""Bugs that random seeds have found, each with a scenario of its own."""

from __future__ import annotations

import pytest

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import ElectionLost, IsrResult
from understudy.foundation.zk.admin_znodes import DeleteTopicsTopicZNode, ReassignPartitionsZNode
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge
from understudy.trials.seeds.seeds import run_seed


def _both_lose_the_race(seed: int) -> bool:
    """Make two brokers lose the responses to their elections, and depose the elected one before they read its id.

    Returns whether both lost an election to a broker that was no longer the controller, which depends on the seed.
    """
    with SimulatedCluster(seed, brokers=2) as cluster:
        cluster.start()
        for broker in cluster.brokers:
            cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, "/controller", applied=True))
        cluster.depose()
        cluster.run_for(15)
        if cluster.zookeeper.lost_answers:
            return False
        cluster.depose()
        cluster.settle(timeout_s=10)
    assert judge(cluster).problems == ()
    return ElectionLost(winner=-1) in [decode_record(line).data for line in cluster.log_lines]


def test_candidates_do_not_wait_for_the_deletion_of_a_controller_znode_that_is_deleted_already() -> None:
    """Seed 135: the brokers set their watch on `/controller` after its deletion, and no watch fired."""
    assert sum(_both_lose_the_race(seed) for seed in range(40)) >= 3, "hardly any seed runs the scenario"


def test_a_controller_whose_session_expires_while_it_shuts_down_stops() -> None:
    """Seed 243: stopped during its failover, it recorded an empty context as the state of the cluster. The Expire event
    then removed the event that ends the queue, and the broker never stopped."""
    with SimulatedCluster(1, brokers=3) as cluster:
        cluster.start()
        for broker in cluster.brokers:
            broker.arm("notifications.after_write", "pause", resume_after_ms=9_000)
        cluster.depose()
        cluster.run_for(1_000)
        paused = [broker for broker in cluster.brokers if broker.is_paused]
        assert len(paused) == 1
        paused[0].stop()
        cluster.run_for(16_000)
        assert not paused[0].is_running
        cluster.settle()
    assert judge(cluster).problems == ()


def test_a_deletion_does_not_wait_for_a_reassignment_of_its_topic() -> None:
    """Seed 20182: a topic was marked for deletion while a reassignment of it began, and the controller died. The next
    controller waited for the reassignment before the deletion, but the followers could not fetch the topic any more."""
    with SimulatedCluster(1, brokers=5) as cluster:
        cluster.start()
        controller, orders_0 = cluster.controller(), TopicPartition("orders", 0)
        one, two, three, four = (broker for broker in cluster.broker_ids if broker != controller.id)
        cluster.create_topic("orders", assignment={0: [one, two]})
        cluster.settle()
        controller.arm("reassignment.after_write", "crash")
        cluster.begin(cluster.admin.alter_partition_reassignments({orders_0: [three, four]}))
        cluster.run_for(1_000)
        assert not controller.is_running
        assert cluster.znodes.topics()["orders"].partitions[orders_0].is_being_reassigned
        assert cluster.write(DeleteTopicsTopicZNode.path("orders"))
        cluster.run_for(8_000)
        controller.begin_start()
        cluster.settle(timeout_s=10)
        assert "orders" not in cluster.znodes.topics()
    assert judge(cluster).problems == ()


def test_a_new_topic_is_not_reassigned_by_the_request_for_a_deleted_topic_of_its_name() -> None:
    """Seed 20007: a reassignment that could not end stayed in `/admin/reassign_partitions` when its topic was deleted.
    A topic of the same name was created, and the next controller reassigned it."""
    with SimulatedCluster(1, brokers=4) as cluster:
        cluster.start()
        orders_0, dead = TopicPartition("orders", 0), 4 if cluster.controller_id() != 4 else 3
        alive = [broker for broker in cluster.broker_ids if broker != dead]
        cluster.create_topic("orders", assignment={0: alive[:2]})
        cluster.broker(dead).kill()
        cluster.run_for(8_000)
        assert cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode({orders_0: [BrokerId(dead)]}))
        cluster.run_for(1_000)
        cluster.begin(cluster.admin.delete_topics("orders"))
        cluster.run_for(1_000)
        cluster.broker(dead).begin_start()
        cluster.settle()
        assert "orders" not in cluster.znodes.topics()
        cluster.create_topic("orders", assignment={0: alive[:2]})
        cluster.depose()
        cluster.settle()
        assert cluster.znodes.topics()["orders"].partitions[orders_0].replicas == tuple(alive[:2])
    assert judge(cluster).problems == ()


@pytest.mark.spec("IS-6")
def test_an_isr_change_that_a_deposed_controller_has_refused_is_proposed_again() -> None:
    """Seed 77000040: a deposed controller without a connection to ZooKeeper led a partition of a topic that is not in
    its context. It sent the ISR change to itself, and answered UNKNOWN_TOPIC_ID.

    No controller had a reason to send the leader a LeaderAndIsr after that: the change stayed pending for ever.
    """
    with SimulatedCluster(1, brokers=4) as cluster:
        cluster.start()
        deposed = cluster.controller()
        follower, third, fourth = (broker for broker in cluster.brokers if broker is not deposed)
        cluster.create_topic("payments", assignment={0: [deposed.id, follower.id]})
        cluster.settle()
        follower.kill()
        cluster.run_for(8_000)
        follower.begin_start()
        cluster.settle()
        assert _isr_results(cluster, "payments") == ["NONE"], "over a connection of the controller to itself"
        follower.kill()
        cluster.run_for(8_000)
        cluster.cut_from_zookeeper(deposed.id)
        cluster.depose()
        cluster.run_for(1_000)
        assert cluster.controller_id() in (third.id, fourth.id)
        cluster.create_topic("orders", assignment={0: [deposed.id, follower.id]})
        follower.begin_start()
        # The leader knows the new controller from its UpdateMetadata, before the old one resigns.
        cluster.run_for(4_000)
        assert deposed.instance is not None
        assert deposed.instance.controller.is_active, "it has not been notified yet"
        assert _isr_results(cluster, "orders") == ["UNKNOWN_TOPIC_ID", "NONE"]
        assert cluster.isr("orders", 0) == (deposed.id, follower.id)
        cluster.heal()
        cluster.settle()
    assert judge(cluster).problems == ()


def _isr_results(cluster: SimulatedCluster, topic: str) -> list[str]:
    """The errors in the responses to the topic's ISR changes, in order."""
    found = (decode_record(line).data for line in cluster.log_lines)
    return [data.error for data in found if isinstance(data, IsrResult) and data.topic == topic]


def test_seed_77000040_settles() -> None:
    report = run_seed(77_000_040, 60, groups=False)
    assert report.problems == ()


def test_a_deposed_controller_may_send_a_state_that_its_successor_wrote() -> None:
    """A controller that has not noticed its end reads states of its successor, and may send them first (check P9)."""
    report = run_seed(1_795_339_224, 60, groups=False)
    assert report.problems == ()
