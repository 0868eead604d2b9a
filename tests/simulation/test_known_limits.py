"""The limits that Kafka's ZooKeeper mode is known for, one scene each: shown where we share them, missed where we do
better.

Section 21 of the specification lists them; docs/fidelity.md says on which side we stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.fences import Fence
from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import (
    BrokerRegistered,
    Envelope,
    EventStarted,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    SessionOpened,
)
from foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from foundation.zk.client import Create, Delete, Stat
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import PORT, SimulatedCluster
from understudy.simulator.judgement import judge
from understudy.simulator.zookeeper import LostAnswer

ORDERS_0 = TopicPartition("orders", 0)
SESSION_MS = 6_000


@contextmanager
def scene(seed: int = 5, *, brokers: int = 3, settings: dict[str, str] | None = None) -> Iterator[SimulatedCluster]:
    """At rest, with `orders-0` on three brokers, led by one who is not the controller. In the end at rest again, and
    judged."""
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
    """Of `orders-0`, and not the controller."""
    state = cluster.znodes.state(ORDERS_0)
    assert state is not None
    return cluster.broker(next(broker for broker in state.isr if broker not in (state.leader, cluster.controller_id())))


def records(cluster: SimulatedCluster, kind: type, node: SimulatedBroker | None = None) -> list[Envelope]:
    """In the order in which they were written."""
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
def test_a_broker_that_has_not_heard_of_the_new_controller_obeys_the_old_one() -> None:
    """Between its write and its requests a controller sleeps through the end of its session. Its successor does not
    reach one of the brokers, which takes the sleeper's orders when it wakes; the others, and ZooKeeper, refuse them."""
    with scene(brokers=4) as cluster:
        zombie, dead, alone = controller(cluster), leader(cluster), follower(cluster)
        successor = next(broker for broker in cluster.broker_ids if broker not in (zombie.id, dead.id, alone.id))
        zombie.arm("partition.after_write", "pause")
        dead.kill()
        cluster.run_for(SESSION_MS + 1_000)
        assert zombie.is_paused
        cluster.cut([successor], [alone.id])
        cluster.cut_from_zookeeper(alone.id)  # or it would win itself
        zombie.expire_session()
        cluster.run_for(1_000)
        assert cluster.controller_id() == successor
        cluster.heal_zookeeper(alone.id)
        zombie.resume()
        cluster.run_for(1_000)
        assert last_order(cluster, alone) == (zombie.id, 1)
        assert sum(broker.node.fence_hits[Fence.BROKER_CONTROLLER_EPOCH] for broker in cluster.brokers) > 0
        cluster.heal_network()
        cluster.run_for(4_000)
        assert last_order(cluster, alone) == (successor, 2)


def last_order(cluster: SimulatedCluster, broker: SimulatedBroker) -> tuple[int, int]:
    """Of which controller, and of which epoch, the last LeaderAndIsr was that the broker has applied."""
    applied = records(cluster, LeaderAndIsrApplied, broker)[-1].data
    assert isinstance(applied, LeaderAndIsrApplied)
    return applied.controller_id, applied.request_controller_epoch


@pytest.mark.spec("BUG-14")
def test_a_new_controller_knows_nothing_of_a_farewell_and_takes_the_leaving_for_living() -> None:
    with scene(brokers=4) as cluster:
        leaver, old = leader(cluster), controller(cluster)
        farewell = ControlledShutdownRequest(broker_id=leaver.id, broker_epoch=broker_epoch(cluster, leaver))
        cluster.ask(cluster.admin.ask(old.node.name, PORT, farewell, version=3))
        cluster.run_for(5_000)
        assert leaver.id not in cluster.isr("orders", 0), "who is leaving is not let back in"
        old.kill()
        cluster.run_for(SESSION_MS + 5_000)
        assert leaver.id in cluster.isr("orders", 0), "its successor has never heard of it"


# ------------------------------------------------------------------ registrations


@pytest.mark.spec("BUG-4")
def test_a_registration_whose_answer_was_lost_is_ones_own() -> None:
    with scene() as cluster:
        broker = follower(cluster)
        cluster.zookeeper.lost_answers.append(LostAnswer(broker.node.name, f"/brokers/ids/{broker.id}", applied=True))
        broker.expire_session()
        cluster.settle()
        assert not cluster.zookeeper.lost_answers
        assert broker.node.incarnation == 1, "it has not been started again"


@pytest.mark.spec("BUG-4", "BUG-5")
def test_who_cannot_register_again_runs_on_unregistered_until_its_next_session() -> None:
    """Somebody else holds its id. When that is over nobody tells it: only the end of its new session makes it try
    again."""
    with scene() as cluster:
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
def test_a_session_that_ends_in_the_middle_of_a_takeover_blocks_nothing() -> None:
    """Kafka had deadlocks there. The event in progress ends at its next call to ZooKeeper; only then a session is
    opened."""
    with scene() as cluster:
        for broker in cluster.brokers:
            broker.node.arm("notifications.after_write", "expire", broker.expire_session)
        cluster.depose()
        cluster.run_for(2_000)
        cluster.settle(timeout_s=5)
        assert all(broker.node.incarnation == 1 for broker in cluster.brokers)


# ------------------------------------------------------------------ one thing at a time, and who is out of reach


@pytest.mark.spec("BUG-24")
def test_while_zookeeper_is_slow_every_event_waits_for_the_one_in_progress() -> None:
    with scene(brokers=4) as cluster:
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
def test_a_broker_that_its_controller_cannot_reach_stays_a_leader_and_knows_nothing_new() -> None:
    with scene() as cluster:
        alone = leader(cluster)
        cluster.cut([alone.id], [cluster.controller_id() or 0])
        cluster.create_topic(
            "payments", assignment={0: [broker for broker in cluster.broker_ids if broker != alone.id]}
        )
        cluster.run_for(30_000)
        assert alone.id in cluster.znodes.brokers()
        assert cluster.leader_id("orders", 0) == alone.id
        assert alone.instance is not None
        assert alone.instance.metadata.snapshot.partition("payments", 0) is None
        cluster.heal_network()
        cluster.settle(timeout_s=10)
        assert alone.instance.metadata.snapshot.partition("payments", 0) is not None


@pytest.mark.spec("BUG-20", "BK-9")
def test_a_follower_whose_leader_is_unknown_says_nothing_and_waits_for_the_next_election() -> None:
    with scene() as cluster:
        state, mute = cluster.znodes.state(ORDERS_0), follower(cluster)
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
        answer = cluster.ask(cluster.admin.ask(mute.node.name, PORT, request, version=7))
        assert isinstance(answer, LeaderAndIsrResponse)
        assert (answer.error_code, answer.topics) == (Errors.NONE, ()) or answer.topics[0].partition_errors[
            0
        ].error_code == 0
        cluster.run_for(10_000)
        assert mute.instance is not None
        assert mute.instance.hosted[ORDERS_0].leader_epoch == state.leader_epoch, "it has not noted the epoch"
        assert mute.instance.fetched[ORDERS_0] == state.leader, "and goes on with the leader it knows"
        leader(cluster).bounce(SESSION_MS + 2_000)
        cluster.run_for(SESSION_MS + 3_000)
        cluster.settle()
        assert mute.instance.hosted[ORDERS_0].leader_epoch > state.leader_epoch


# ------------------------------------------------------------------ writes


@pytest.mark.spec("BUG-17")
def test_a_topic_that_is_half_created_leaves_its_config_until_somebody_creates_it_again() -> None:
    """Config first, then the topic, unfenced and one by one: a broker that dies in between leaves the config alone."""
    with scene() as cluster:
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
        assert "payments" in cluster.znodes.topics(), "the client has tried again"


@pytest.mark.spec("BUG-26")
@pytest.mark.parametrize("unclean", [False, True])
def test_the_last_in_sync_replica_stays_listed_when_it_dies(unclean: bool) -> None:
    """Until it returns the partition has no leader; only where data may be lost another one takes over."""
    with scene(settings={"unclean.leader.election.enable": "true"} if unclean else None) as cluster:
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
def test_an_isr_change_whose_answer_was_lost_is_found_to_have_been_made() -> None:
    """In Kafka the controller meets its own write as a conflict, and the leader waits with every further change."""
    with scene() as cluster:
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
        proposed, answered = records(cluster, IsrProposed, leading)[-1], records(cluster, IsrResult, leading)[-1]
        assert isinstance(answered.data, IsrResult)
        assert answered.seq > proposed.seq
        assert answered.data.error == "NONE"
        assert sum(broker.node.fence_hits[Fence.ALTER_PARTITION_EPOCHS] for broker in cluster.brokers) == 0
