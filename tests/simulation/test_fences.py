"""Every fence is reached, and what each is worth: the same scene with it, without it, and without the one behind it.

Random seeds hardly ever reach the fences played here, because another one stands before them. Each scene says which.
"""

from __future__ import annotations

import json

from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.fences import Fence
from foundation.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
)
from foundation.wire.messages.controlled_shutdown import ControlledShutdownRequest
from foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from foundation.wire.schema import Message
from foundation.zk.client import Stat
from understudy.cluster import Unsettled
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import PORT, SimulatedCluster
from understudy.simulator.judgement import Judgement, judge

ORDERS_0 = TopicPartition("orders", 0)


def cluster_of_three(*fences_off: Fence) -> SimulatedCluster:
    """At rest, with `orders` on all of them and led by one who is not the controller."""
    cluster = SimulatedCluster(5, brokers=3, fences_off=fences_off)
    cluster.start()
    replicas = sorted(cluster.broker_ids, key=lambda broker: broker == cluster.controller_id())
    cluster.create_topic("orders", assignment={0: replicas})
    cluster.settle()
    return cluster


def tell(cluster: SimulatedCluster, broker: SimulatedBroker, request: Message, version: int) -> Message:
    return cluster.ask(cluster.admin.ask(broker.node.name, PORT, request, version=version))


def broker_epoch(cluster: SimulatedCluster, broker: SimulatedBroker) -> int:
    registration = cluster.zookeeper.tree.exists(f"/brokers/ids/{broker.id}")
    assert isinstance(registration, Stat)
    return registration.czxid


def hits(cluster: SimulatedCluster, fence: Fence) -> int:
    return sum(broker.node.fence_hits[fence] for broker in cluster.brokers)


def violated(judgement: Judgement) -> list[str]:
    return [problem.split()[0] for problem in judgement.problems]


# ------------------------------------------------------------------ broker.leader-epoch


def old_leadership_from_the_controller_of_the_day(*fences_off: Fence) -> tuple[int, Judgement]:
    """A controller never sends leadership out of order, and an old one's orders end at `broker.controller-epoch`. Hence
    by
    hand: what broker 1 was told when `orders` was new, in the name of the controller of the day."""
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
        tell(cluster, follower, request, 7)
        struck = hits(cluster, Fence.BROKER_LEADER_EPOCH)
    return struck, judge(cluster)


def test_old_leadership_is_refused_whoever_sends_it() -> None:
    struck, judgement = old_leadership_from_the_controller_of_the_day()
    assert (struck, judgement.problems) == (1, ())


def test_without_the_leader_epoch_fence_a_broker_follows_the_past() -> None:
    struck, judgement = old_leadership_from_the_controller_of_the_day(Fence.BROKER_LEADER_EPOCH)
    assert struck == 1
    assert "C4c" in violated(judgement)


# ------------------------------------------------------------------ controller.state-controller-epoch


def a_deposed_controller_goes_on_deciding(*fences_off: Fence) -> tuple[int, list[int], Judgement]:
    """It stops before a write, is deposed, and wakes in the same session. Its check of `/controller_epoch` would end it
    there; without that check it finds the state changed, reads it again, and sees who has written it."""
    with cluster_of_three(*fences_off) as cluster:
        old = cluster.controller()
        old.arm("partition.before_write", "pause", resume_after_ms=4_000)
        cluster.leader("orders", 0).kill()
        cluster.run_for(8_000)
        assert old.is_paused
        cluster.depose()
        cluster.run_for(12_000)
        assert cluster.controller_id() != old.id
        struck = hits(cluster, Fence.STATE_CONTROLLER_EPOCH)
        writes = [
            op
            for transaction in cluster.zookeeper.transactions
            for op in transaction.ops
            if op.path.endswith("/0/state")
        ]
        epochs = [json.loads(op.data or b"")["controller_epoch"] for op in writes]
    return struck, epochs, judge(cluster)


def test_the_write_of_a_deposed_controller_ends_at_its_check_of_the_epoch() -> None:
    struck, epochs, judgement = a_deposed_controller_goes_on_deciding()
    assert (struck, epochs, judgement.problems) == (0, [1, 2, 2], ())
    assert judgement.fence_hits[Fence.ZK_CONTROLLER_EPOCH] == 1


def test_without_that_check_it_leaves_alone_what_a_newer_controller_has_written() -> None:
    struck, epochs, _ = a_deposed_controller_goes_on_deciding(Fence.ZK_CONTROLLER_EPOCH)
    assert struck > 0
    assert epochs == [1, 2, 2]


def test_without_both_an_old_epoch_returns_into_the_state() -> None:
    struck, epochs, judgement = a_deposed_controller_goes_on_deciding(
        Fence.ZK_CONTROLLER_EPOCH, Fence.STATE_CONTROLLER_EPOCH
    )
    assert struck > 0
    assert epochs == [1, 2, 2, 1]
    assert "C3" in violated(judgement)


# ------------------------------------------------------------------ controller.broker-epoch


def a_farewell_arrives_after_the_return(*fences_off: Fence) -> tuple[int, bool, Judgement]:
    """A ControlledShutdown of a registration that is over: its sender was killed, and is back. No other fence stands
    behind this one; only liveness notices that a broker is there and is treated as leaving."""
    with cluster_of_three(*fences_off) as cluster:
        leaver = cluster.leader("orders", 0)
        farewell = ControlledShutdownRequest(broker_id=leaver.id, broker_epoch=broker_epoch(cluster, leaver))
        leaver.bounce(8_000)
        cluster.run_for(9_000)
        cluster.settle()
        tell(cluster, cluster.controller(), farewell, 3)
        try:
            cluster.settle(timeout_s=20)
        except Unsettled:
            rests = False
        else:
            rests = True
        struck = hits(cluster, Fence.REQUEST_BROKER_EPOCH)
    return struck, rests, judge(cluster)


def test_a_broker_that_is_back_is_not_sent_away_by_its_former_self() -> None:
    struck, rests, judgement = a_farewell_arrives_after_the_return()
    assert struck > 0
    assert rests
    assert judgement.problems == ()


def test_without_the_broker_epoch_fence_it_is_treated_as_leaving_for_ever() -> None:
    struck, rests, _ = a_farewell_arrives_after_the_return(Fence.REQUEST_BROKER_EPOCH)
    assert struck > 0
    assert not rests


# ------------------------------------------------------------------ controller.partition-epochs


def a_leader_proposes_what_was(*fences_off: Fence) -> tuple[int, Errors, Judgement]:
    """A proposal of the right leader over the state before this one. Behind the fence stands ZooKeeper: the controller
    writes over exactly the version that was proposed over, and that one is gone. That is why no seed misses this
    fence."""
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
        answer = tell(cluster, cluster.controller(), request, 1)
        assert isinstance(answer, AlterPartitionResponse)
        assert answer.error_code == Errors.NONE
        cluster.run_for(100)
        assert cluster.znodes.state(ORDERS_0) == now
        struck = hits(cluster, Fence.ALTER_PARTITION_EPOCHS)
    return struck, Errors(answer.topics[0].partitions[0].error_code), judge(cluster)


def test_a_proposal_over_a_former_state_is_refused() -> None:
    struck, error, judgement = a_leader_proposes_what_was()
    assert (struck, judgement.problems) == (1, ())
    assert error is Errors.FENCED_LEADER_EPOCH


def test_without_the_fence_of_partition_epochs_zookeeper_refuses_it() -> None:
    struck, error, judgement = a_leader_proposes_what_was(Fence.ALTER_PARTITION_EPOCHS)
    assert (struck, judgement.problems) == (1, ())
    assert error is Errors.INVALID_UPDATE_VERSION
