"""The known bugs and limits of Kafka's ZooKeeper mode, with a scenario for each that Understudy shares or avoids.

docs/inside/fidelity.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    Envelope,
    EventStarted,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    SessionOpened,
)
from understudy.foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from understudy.foundation.zk.client import Create, Delete, Stat
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge

ORDERS_0 = TopicPartition("orders", 0)
SESSION_MS = 6_000


@contextmanager
def settled_cluster(
    seed: int = 5, *, brokers: int = 3, settings: dict[str, str] | None = None
) -> Iterator[SimulatedCluster]:
    """A settled cluster with `orders-0` on three brokers, led by one that is not the controller.

    At the end all faults are healed; the cluster must settle, and no check may be violated.
    """
    with SimulatedCluster(seed, brokers=brokers, settings=settings) as cluster:
        cluster.start()
        others = sorted(cluster.broker_ids, key=lambda broker: broker == cluster.controller_id())
        cluster.create_topic("orders", assignment={0: [*others[:2], others[-1]]})
        cluster.settle()
        yield cluster
        cluster.heal()
        cluster.settle()
    assert judge(cluster).problems == ()


def controller(cluster: SimulatedCluster) -> SimulatedBroker:
    return cluster.controller()


def leader(cluster: SimulatedCluster) -> SimulatedBroker:
    return cluster.leader("orders", 0)


def follower(cluster: SimulatedCluster) -> SimulatedBroker:
    """A follower of `orders-0` that is not the controller."""
    state = cluster.znodes.state(ORDERS_0)
    assert state is not None
    return cluster.broker(next(broker for broker in state.isr if broker not in (state.leader, cluster.controller_id())))


def records(cluster: SimulatedCluster, kind: type, node: SimulatedBroker | None = None) -> list[Envelope]:
    """The records of a kind, of one node or of all, in the order in which they were written."""
    found = [decode_record(line) for line in cluster.log_lines]
    return [
        record for record in found if isinstance(record.data, kind) and (node is None or record.node == node.node.name)
    ]


def broker_epoch(cluster: SimulatedCluster, broker: SimulatedBroker) -> int:
    registration = cluster.zookeeper.tree.exists(f"/brokers/ids/{broker.id}")
    assert isinstance(registration, Stat)
    return registration.czxid


def newest_session(cluster: SimulatedCluster, broker: SimulatedBroker) -> int:
    opened = records(cluster, SessionOpened, broker)[-1].data
    assert isinstance(opened, SessionOpened)
    return opened.session_id


# ------------------------------------------------------------------ two controllers at once


@pytest.mark.spec("BUG-1")
def test_a_broker_without_a_request_of_the_new_controller_applies_those_of_the_old_one() -> None:
    """A controller is paused between its write and its requests until its session has ended. The next controller cannot
    reach one of the brokers. That broker applies the requests that the old controller sends when it is resumed; the
    other brokers and ZooKeeper refuse them."""
    with settled_cluster(brokers=4) as cluster:
        zombie, dead, unreachable = controller(cluster), leader(cluster), follower(cluster)
        successor = next(broker for broker in cluster.broker_ids if broker not in (zombie.id, dead.id, unreachable.id))
        zombie.arm("partition.after_write", "pause")
        dead.kill()
        cluster.run_for(SESSION_MS + 1_000)
        assert zombie.is_paused
        cluster.cut(successor, [unreachable.id])
        cluster.cut_from_zookeeper(unreachable.id)  # otherwise it might be elected itself
        zombie.expire_session()
        cluster.run_for(1_000)
        assert cluster.controller_id() == successor
        cluster.heal_zookeeper(unreachable.id)
        zombie.resume()
        cluster.run_for(1_000)
        assert last_leader_and_isr(cluster, unreachable) == (zombie.id, 1)
        assert sum(broker.node.fence_hits[Fence.BROKER_CONTROLLER_EPOCH] for broker in cluster.brokers) > 0
        cluster.heal_network()
        cluster.run_for(4_000)
        assert last_leader_and_isr(cluster, unreachable) == (successor, 2)


def last_leader_and_isr(cluster: SimulatedCluster, broker: SimulatedBroker) -> tuple[int, int]:
    """The controller id and controller epoch of the last LeaderAndIsr that the broker has applied."""
    applied = records(cluster, LeaderAndIsrApplied, broker)[-1].data
    assert isinstance(applied, LeaderAndIsrApplied)
    return applied.controller_id, applied.request_controller_epoch


@pytest.mark.spec("BUG-14")
def test_a_new_controller_does_not_know_that_a_broker_is_shutting_down() -> None:
    with settled_cluster(brokers=4) as cluster:
        stopping, old = leader(cluster), controller(cluster)
        request = ControlledShutdownRequest(broker_id=stopping.id, broker_epoch=broker_epoch(cluster, stopping))
        cluster.ask(cluster.admin.ask(old.node.name, PORT, request, version=3))
        cluster.run_for(5_000)
        assert stopping.id not in cluster.isr("orders", 0), "a broker that is shutting down is not added to the ISR"
        old.kill()
        cluster.run_for(SESSION_MS + 5_000)
        assert stopping.id in cluster.isr("orders", 0), "the new controller has received no ControlledShutdown"


# ------------------------------------------------------------------ registrations


@pytest.mark.spec("BUG-4")
def test_a_broker_recognizes_its_own_registration_after_a_lost_response() -> None:
    with settled_cluster() as cluster:
        broker = follower(cluster)
        cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, f"/brokers/ids/{broker.id}", applied=True))
        broker.expire_session()
        cluster.settle()
        assert not cluster.zookeeper.lost_answers
        assert broker.node.incarnation == 1, "it has not been started again"


@pytest.mark.spec("BUG-4", "BUG-5")
def test_a_broker_that_cannot_register_again_stays_unregistered_until_its_next_session() -> None:
    """Its id is registered by another session. It is not notified when that registration is deleted: it registers only
    when its own session has expired again."""
    with settled_cluster() as cluster:
        broker, path = follower(cluster), f"/brokers/ids/{follower(cluster).id}"
        broker.expire_session()
        assert cluster.zookeeper.operate([Create(path, b"{}")])
        cluster.run_for(4_000)
        assert broker.is_running
        assert cluster.zookeeper.operate([Delete(path)])
        cluster.run_for(20_000)
        assert broker.is_running
        assert broker.id not in cluster.znodes.brokers()
        assert len(records(cluster, BrokerRegistered, broker)) == 1
        cluster.zookeeper.expire(newest_session(cluster, broker))
        cluster.settle()
        assert len(records(cluster, BrokerRegistered, broker)) == 2


@pytest.mark.spec("BUG-6", "BUG-7")
def test_a_session_that_expires_during_a_failover_causes_no_deadlock() -> None:
    """Kafka had deadlocks here. The event in progress ends at its next request to ZooKeeper."""
    with settled_cluster() as cluster:
        for broker in cluster.brokers:
            broker.node.arm("notifications.after_write", "expire", broker.expire_session)
        cluster.depose()
        cluster.run_for(2_000)
        cluster.settle(timeout_s=5)
        assert all(broker.node.incarnation == 1 for broker in cluster.brokers)


# ------------------------------------------------------------------ the event queue, and brokers that cannot be reached


@pytest.mark.spec("BUG-24")
def test_while_zookeeper_is_slow_every_event_waits_for_the_one_in_progress() -> None:
    with settled_cluster(brokers=4) as cluster:
        old, dead = controller(cluster), follower(cluster)
        old.node.arm("replica.before_write", "hold", lambda: cluster.cut_from_zookeeper(old.id, requests=False))
        dead.kill()
        cluster.run_for(SESSION_MS + 500)
        cluster.begin(cluster.admin.elect_leaders())
        cluster.run_for(3_000)
        cluster.heal_zookeeper(old.id)
        cluster.run_for(1_000)
        assert cluster.controller_id() == old.id
        waited = {data.event: data.queued_ms for data in started(cluster, old)}
        assert waited["ReplicaLeaderElection"] > 2_500


def started(cluster: SimulatedCluster, broker: SimulatedBroker) -> list[EventStarted]:
    return [record.data for record in records(cluster, EventStarted, broker) if isinstance(record.data, EventStarted)]


@pytest.mark.spec("BUG-25")
def test_a_broker_that_the_controller_cannot_reach_stays_leader_without_new_metadata() -> None:
    with settled_cluster() as cluster:
        unreachable = leader(cluster)
        cluster.cut(unreachable.id, [cluster.controller_id() or 0])
        cluster.create_topic(
            "payments", assignment={0: [broker for broker in cluster.broker_ids if broker != unreachable.id]}
        )
        cluster.run_for(30_000)
        assert unreachable.id in cluster.znodes.brokers()
        assert cluster.leader_id("orders", 0) == unreachable.id
        assert unreachable.instance is not None
        assert unreachable.instance.metadata.snapshot.partition("payments", 0) is None
        cluster.heal_network()
        cluster.settle(timeout_s=10)
        assert unreachable.instance.metadata.snapshot.partition("payments", 0) is not None


@pytest.mark.spec("BUG-20", "BK-9")
def test_a_follower_whose_leader_is_unknown_reports_no_error_and_waits_for_the_next_election() -> None:
    with settled_cluster() as cluster:
        state, following = cluster.znodes.state(ORDERS_0), follower(cluster)
        assert state is not None
        unknown = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=cluster.znodes.controller_epoch(),
            leader=77,
            leader_epoch=state.leader_epoch + 1,
            isr=(77,),
            partition_epoch=state.partition_epoch + 1,
            replicas=tuple(state.isr),
        )
        request = LeaderAndIsrRequest(
            controller_id=cluster.controller_id() or 0,
            controller_epoch=cluster.znodes.controller_epoch(),
            topic_states=(LeaderAndIsrTopicState(topic_name="orders", partition_states=(unknown,)),),
        )
        answer = cluster.ask(cluster.admin.ask(following.node.name, PORT, request, version=7))
        assert isinstance(answer, LeaderAndIsrResponse)
        assert (answer.error_code, answer.topics) == (Errors.NONE, ()) or answer.topics[0].partition_errors[
            0
        ].error_code == 0
        cluster.run_for(10_000)
        assert following.instance is not None
        assert following.instance.hosted[ORDERS_0].leader_epoch == state.leader_epoch, "it has not stored the epoch"
        assert following.instance.fetched[ORDERS_0] == state.leader, "and fetches from the leader that it knows"
        leader(cluster).bounce(SESSION_MS + 2_000)
        cluster.run_for(SESSION_MS + 3_000)
        cluster.settle()
        assert following.instance.hosted[ORDERS_0].leader_epoch > state.leader_epoch


# ------------------------------------------------------------------ writes


@pytest.mark.spec("BUG-17")
def test_a_topic_whose_creation_was_interrupted_leaves_its_config_until_it_is_created_again() -> None:
    """The config is written first, then the topic, in two requests: a kill in between leaves only the config."""
    with settled_cluster() as cluster:
        old = controller(cluster)
        link = cluster.zookeeper.link(old.node.name)

        def crash_after_the_config(number: int) -> None:
            if cluster.znodes.data("/config/topics/payments") is not None and old.is_running:
                old.kill()

        link.before_request = crash_after_the_config
        cluster.begin(cluster.admin.create_topic("payments", partitions=1, replication_factor=2))
        cluster.run_for(1_000)
        assert not old.is_running
        assert cluster.znodes.data("/config/topics/payments") is not None
        assert "payments" not in cluster.znodes.topics()
        cluster.run_for(SESSION_MS + 3_000)
        assert "payments" in cluster.znodes.topics(), "the client has sent its request again"


@pytest.mark.spec("BUG-26")
@pytest.mark.parametrize("unclean", [False, True])
def test_the_last_in_sync_replica_stays_in_the_isr_when_it_dies(unclean: bool) -> None:
    """The partition has no leader until it returns, unless unclean election is enabled."""
    with settled_cluster(settings={"unclean.leader.election.enable": "true"} if unclean else None) as cluster:
        last, others = (
            leader(cluster),
            [broker for broker in cluster.broker_ids if broker != cluster.leader_id("orders", 0)],
        )
        for broker in others:
            cluster.broker(broker).kill()
        cluster.run_for(2 * SESSION_MS)
        assert cluster.isr("orders", 0) == (last.id,)
        last.kill()
        for broker in others:
            cluster.broker(broker).begin_start()
        cluster.run_for(2 * SESSION_MS)
        state = cluster.znodes.state(ORDERS_0)
        assert state is not None
        if unclean:
            assert state.leader in others
        else:
            assert (state.leader, state.isr) == (-1, (last.id,))
            last.begin_start()
            cluster.settle()
            assert cluster.leader_id("orders", 0) == last.id


@pytest.mark.spec("BUG-27")
def test_the_controller_recognizes_its_own_isr_change_after_a_lost_response() -> None:
    """In Kafka the controller takes its own write for a conflict, and the leader cannot change the ISR any more."""
    with settled_cluster() as cluster:
        returning, leading = follower(cluster), leader(cluster)
        returning.bounce(SESSION_MS + 2_000)
        cluster.run_for(SESSION_MS + 2_000)
        assert returning.id not in cluster.isr("orders", 0)
        cluster.zookeeper.lost_answers.append(
            LostAnswer(controller(cluster).node.name, "/partitions/0/state", applied=True)
        )
        cluster.run_for(8_000)
        assert not cluster.zookeeper.lost_answers
        assert returning.id in cluster.isr("orders", 0)
        proposed, result = records(cluster, IsrProposed, leading)[-1], records(cluster, IsrResult, leading)[-1]
        assert isinstance(result.data, IsrResult)
        assert result.seq > proposed.seq
        assert result.data.error == "NONE"
        assert sum(broker.node.fence_hits[Fence.ALTER_PARTITION_EPOCHS] for broker in cluster.brokers) == 0
