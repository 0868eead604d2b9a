"""The effect of single fences: each scenario runs with the fence, without it, and without the next fence too.

Random seeds seldom reach these fences, because another check usually refuses the write or request first. Each scenario
names that check.
"""

from __future__ import annotations

import json

from understudy.clusters.cluster import Unsettled
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
)
from understudy.foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Stat
from understudy.trials.seeds.judgement import SeedJudgement, judge

ORDERS_0 = TopicPartition("orders", 0)


def cluster_of_three(*fences_off: Fence) -> SimulatedCluster:
    """A settled cluster with `orders` on all brokers, led by one that is not the controller."""
    cluster = SimulatedCluster(5, brokers=3, fences_off=fences_off)
    cluster.start()
    replicas = sorted(cluster.broker_ids, key=lambda broker: broker == cluster.controller_id())
    cluster.create_topic("orders", assignment={0: replicas})
    cluster.settle()
    return cluster


def send(cluster: SimulatedCluster, broker: SimulatedBroker, request: Message, version: int) -> Message:
    return cluster.ask(cluster.admin.ask(broker.node.name, PORT, request, version=version))


def broker_epoch(cluster: SimulatedCluster, broker: SimulatedBroker) -> int:
    registration = cluster.zookeeper.tree.exists(f"/brokers/ids/{broker.id}")
    assert isinstance(registration, Stat)
    return registration.czxid


def hits(cluster: SimulatedCluster, fence: Fence) -> int:
    return sum(broker.node.fence_hits[fence] for broker in cluster.brokers)


def violated(judgement: SeedJudgement) -> list[str]:
    return [problem.split()[0] for problem in judgement.problems]


# ------------------------------------------------------------------ broker.leader-epoch


def send_old_leader_epoch(*fences_off: Fence) -> tuple[int, SeedJudgement]:
    """Send a follower the first LeaderAndIsr of `orders-0` again, with the id and epoch of the current controller.

    A controller never sends leader epochs out of order, and `broker.controller-epoch` refuses the requests of an old
    controller. So the test sends the request itself.
    """
    with cluster_of_three(*fences_off) as cluster:
        leader = cluster.leader("orders", 0)
        before = cluster.znodes.state(ORDERS_0)
        assert before is not None
        leader.begin_stop()
        cluster.run_for(2_000)
        leader.begin_start()
        cluster.settle()
        old = LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=cluster.znodes.controller_epoch(),
            leader=before.leader,
            leader_epoch=before.leader_epoch,
            isr=before.isr,
            partition_epoch=before.partition_epoch + 100,
            replicas=(1, 2, 3),
        )
        follower = next(broker for broker in cluster.brokers if broker.id not in (leader.id, cluster.controller_id()))
        request = LeaderAndIsrRequest(
            controller_id=cluster.controller_id() or 0,
            controller_epoch=cluster.znodes.controller_epoch(),
            topic_states=(LeaderAndIsrTopicState(topic_name="orders", partition_states=(old,)),),
        )
        send(cluster, follower, request, 7)
        fence_hits = hits(cluster, Fence.BROKER_LEADER_EPOCH)
    return fence_hits, judge(cluster)


def test_an_old_leader_epoch_from_the_current_controller_is_refused() -> None:
    fence_hits, judgement = send_old_leader_epoch()
    assert (fence_hits, judgement.problems) == (1, ())


def test_without_the_leader_epoch_fence_a_broker_applies_an_old_leader_epoch() -> None:
    fence_hits, judgement = send_old_leader_epoch(Fence.BROKER_LEADER_EPOCH)
    assert fence_hits == 1
    assert "C4c" in violated(judgement)


# ------------------------------------------------------------------ controller.state-controller-epoch


def resume_deposed_controller_before_a_write(*fences_off: Fence) -> tuple[int, list[int], SeedJudgement]:
    """Pause a controller before a write, depose it, and resume it in the same session.

    The check of `/controller_epoch` refuses its write. Without that check it finds that the state has changed, reads it
    again, and compares the controller epoch in it.
    """
    with cluster_of_three(*fences_off) as cluster:
        old = cluster.controller()
        old.arm("partition.before_write", "pause", resume_after_ms=4_000)
        cluster.leader("orders", 0).kill()
        cluster.run_for(8_000)
        assert old.is_paused
        cluster.depose()
        cluster.run_for(12_000)
        assert cluster.controller_id() != old.id
        fence_hits = hits(cluster, Fence.STATE_CONTROLLER_EPOCH)
        writes = [
            op
            for transaction in cluster.zookeeper.transactions
            for op in transaction.ops
            if op.path.endswith("/0/state")
        ]
        epochs = [json.loads(op.data or b"")["controller_epoch"] for op in writes]
    return fence_hits, epochs, judge(cluster)


def test_the_write_of_a_deposed_controller_is_refused_by_the_check_of_controller_epoch() -> None:
    fence_hits, epochs, judgement = resume_deposed_controller_before_a_write()
    assert (fence_hits, epochs, judgement.problems) == (0, [1, 2, 2], ())
    assert judgement.fence_hits[Fence.ZK_CONTROLLER_EPOCH] == 1


def test_without_that_check_it_does_not_overwrite_the_state_of_a_newer_controller() -> None:
    fence_hits, epochs, _ = resume_deposed_controller_before_a_write(Fence.ZK_CONTROLLER_EPOCH)
    assert fence_hits > 0
    assert epochs == [1, 2, 2]


def test_without_both_fences_it_overwrites_the_state_with_its_old_epoch() -> None:
    fence_hits, epochs, judgement = resume_deposed_controller_before_a_write(
        Fence.ZK_CONTROLLER_EPOCH, Fence.STATE_CONTROLLER_EPOCH
    )
    assert fence_hits > 0
    assert epochs == [1, 2, 2, 1]
    assert "C3" in violated(judgement)


# ------------------------------------------------------------------ controller.broker-epoch


def send_controlled_shutdown_with_old_broker_epoch(*fences_off: Fence) -> tuple[int, bool, SeedJudgement]:
    """Send ControlledShutdown with the old broker epoch of a broker that was killed and has registered again.

    No other fence refuses the request. Without the fence the broker counts as shutting down, and the cluster does not
    settle.
    """
    with cluster_of_three(*fences_off) as cluster:
        stopping = cluster.leader("orders", 0)
        request = ControlledShutdownRequest(broker_id=stopping.id, broker_epoch=broker_epoch(cluster, stopping))
        stopping.bounce(8_000)
        cluster.run_for(9_000)
        cluster.settle()
        send(cluster, cluster.controller(), request, 3)
        try:
            cluster.settle(timeout_s=20)
        except Unsettled:
            settles = False
        else:
            settles = True
        fence_hits = hits(cluster, Fence.REQUEST_BROKER_EPOCH)
    return fence_hits, settles, judge(cluster)


def test_controlled_shutdown_with_an_old_broker_epoch_is_refused() -> None:
    fence_hits, settles, judgement = send_controlled_shutdown_with_old_broker_epoch()
    assert fence_hits > 0
    assert settles
    assert judgement.problems == ()


def test_without_the_broker_epoch_fence_the_broker_counts_as_shutting_down() -> None:
    fence_hits, settles, _ = send_controlled_shutdown_with_old_broker_epoch(Fence.REQUEST_BROKER_EPOCH)
    assert fence_hits > 0
    assert not settles


# ------------------------------------------------------------------ controller.partition-epochs


def send_alter_partition_with_old_partition_epoch(*fences_off: Fence) -> tuple[int, Errors, SeedJudgement]:
    """Send AlterPartition of the current leader with the previous partition epoch.

    Without the fence ZooKeeper refuses the write: the controller writes only over the version in the request, which is
    not the current one. So no seed fails without this fence.
    """
    with cluster_of_three(*fences_off) as cluster:
        state = cluster.znodes.state(ORDERS_0)
        assert state is not None
        cluster.broker(state.isr[1]).begin_stop()
        cluster.run_for(3_000)
        now = cluster.znodes.state(ORDERS_0)
        assert now is not None
        assert now.partition_epoch > state.partition_epoch
        old = AlterPartitionRequestPartitionData(
            partition_index=0,
            leader_epoch=state.leader_epoch,
            new_isr=(state.leader,),
            partition_epoch=state.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=now.leader,
            broker_epoch=broker_epoch(cluster, cluster.broker(now.leader)),
            topics=(AlterPartitionRequestTopicData(topic_name="orders", partitions=(old,)),),
        )
        answer = send(cluster, cluster.controller(), request, 1)
        assert isinstance(answer, AlterPartitionResponse)
        assert answer.error_code == Errors.NONE
        cluster.run_for(100)
        assert cluster.znodes.state(ORDERS_0) == now
        fence_hits = hits(cluster, Fence.ALTER_PARTITION_EPOCHS)
    return fence_hits, Errors(answer.topics[0].partitions[0].error_code), judge(cluster)


def test_alter_partition_with_an_old_partition_epoch_is_refused() -> None:
    fence_hits, error, judgement = send_alter_partition_with_old_partition_epoch()
    assert (fence_hits, judgement.problems) == (1, ())
    assert error is Errors.FENCED_LEADER_EPOCH


def test_without_the_partition_epoch_fence_zookeeper_refuses_the_write() -> None:
    fence_hits, error, judgement = send_alter_partition_with_old_partition_epoch(Fence.ALTER_PARTITION_EPOCHS)
    assert (fence_hits, judgement.problems) == (1, ())
    assert error is Errors.INVALID_UPDATE_VERSION
