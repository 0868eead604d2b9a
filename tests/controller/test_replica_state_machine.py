"""Tests of the replica state machine: transitions, ISR removals, requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.harness import TermHarness
from tests.controller.requests import LeaderAndIsrSent, ReplicaStopped, StateSent, StopReplicaSent, UpdateMetadataSent
from tests.controller.values import ids, led, replicas, state, tp
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.controller import replica_state_machine as rsm
from understudy.controller.replica_state_machine import without_replica
from understudy.controller.topic_changes import on_new_partition_creation
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import (
    InvalidTransition,
    LeadershipNotWritten,
    LeadershipWritten,
    Refused,
    ReplicasMoved,
    Transition,
)
from understudy.foundation.zk.client import Delete, Failure
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, ZooKeeperFailure
from understudy.foundation.zk.transactions import MAX_LOST_ANSWERS, Transactions

NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE


class OnePartitionHarness(TermHarness):
    """Partition orders-0 of brokers 1, 2, 0, led by 1; all replicas online."""

    def __init__(self) -> None:
        super().__init__({"orders": {0: [1, 2, 0]}})

    def __enter__(self) -> OnePartitionHarness:
        super().__enter__()
        self.run(on_new_partition_creation(self.term, [tp("orders-0")]))
        self.settle()
        self.clear_history()
        return self

    def move(self, target: ReplicaState, *brokers: int, name: str = "orders-0") -> None:
        self.run(rsm.handle_state_changes(self.term, {BrokerId(broker): [tp(name)] for broker in brokers}, target))


@pytest.mark.spec("RSM-7", "P8")
@pytest.mark.parametrize(
    ("before", "broker", "after"),
    [
        (state(1, (1, 2, 3), epoch=4, version=7), 2, state(1, (1, 3), epoch=5, version=7)),
        (state(1, (2, 1, 3), epoch=4, version=7), 1, state(-1, (2, 3), epoch=5, version=7)),
        # the last member stays in the ISR: only it may lead again without loss
        (state(1, (1,), epoch=4, version=7), 1, state(-1, (1,), epoch=5, version=7)),
        (state(-1, (1,), epoch=4, version=7), 1, state(-1, (1,), epoch=5, version=7)),
    ],
)
def test_without_replica(before: object, broker: int, after: object) -> None:
    assert without_replica(before, BrokerId(broker)) == after  # type: ignore[arg-type]  # the parameters are states


@given(isr=st.lists(st.integers(1, 5), unique=True, min_size=1), gone=st.integers(1, 5), leader=st.integers(-1, 5))
def test_properties_of_without_replica(isr: list[int], gone: int, leader: int) -> None:
    before = state(leader if leader in isr else -1, tuple(isr))
    after = without_replica(before, BrokerId(gone))
    assert after.isr
    assert set(after.isr) <= set(before.isr)
    assert after.leader == -1 or after.leader in after.isr
    assert after.leader != gone


@pytest.mark.spec("RSM-3", "RSM-4")
def test_new_replica_is_sent_leader_and_isr_once() -> None:
    with OnePartitionHarness() as harness:
        context = harness.term.context
        context.update_partition_assignment(tp("orders-0"), replicas(1, 2, 0, 9))
        harness.term.context.replica_states[BrokerId(2)].clear()
        harness.move(NEW, 2)
        harness.move(ONLINE, 2)
        harness.settle()
        assert harness.broker(2).requests() == [
            LeaderAndIsrSent([StateSent(partition="orders-0", leader=1, isr=(1, 2, 0), is_new=True)], live_leaders=[1]),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=1, isr=(1, 2, 0), offline=(9,))], live_brokers=[0, 1, 2]
            ),
        ]
        assert harness.replica_state("orders-0", 2) is ONLINE


@pytest.mark.spec("RSM-3")
def test_new_replica_cannot_be_the_leader() -> None:
    with OnePartitionHarness() as harness:
        harness.term.context.replica_states[BrokerId(1)].clear()
        harness.move(NEW, 1)
        harness.settle()
        assert harness.replica_state("orders-0", 1) is ReplicaState.NON_EXISTENT
        assert harness.broker(1).requests() == []


@pytest.mark.spec("RSM-3")
def test_other_replicas_become_new_where_one_of_them_is_the_leader() -> None:
    with OnePartitionHarness() as harness:
        harness.term.context.replica_states[BrokerId(1)].clear()
        both = {BrokerId(1): [tp("orders-0"), tp("orders-1")]}
        harness.run(rsm.handle_state_changes(harness.term, both, NEW))
        assert harness.replica_state("orders-0", 1) is ReplicaState.NON_EXISTENT
        assert harness.replica_state("orders-1", 1) is NEW


@pytest.mark.spec("RSM-4")
def test_new_replica_joins_the_assignment_when_online() -> None:
    with OnePartitionHarness() as harness:
        del harness.term.context.leadership[tp("orders-0")]
        harness.term.context.changes += 1
        harness.move(NEW, 7)
        harness.move(ONLINE, 7)
        assert harness.term.context.partition_assignment(tp("orders-0")).replicas == (1, 2, 0, 7)


@pytest.mark.spec("RSM-5")
def test_online_replica_is_sent_leader_and_isr_and_all_update_metadata() -> None:
    with OnePartitionHarness() as harness:
        harness.move(ONLINE, 2)
        harness.settle()
        metadata = UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=1, isr=(1, 2, 0))], live_brokers=[0, 1, 2]
        )
        assert harness.broker(2).requests() == [
            LeaderAndIsrSent([StateSent(partition="orders-0", leader=1, isr=(1, 2, 0))], live_leaders=[1]),
            metadata,
        ]
        assert harness.broker(0).requests() == [metadata]
        assert harness.controller.records(ReplicasMoved) == [], "it was online before"


@pytest.mark.spec("RSM-1", "R-5")
def test_isr_removal_with_unknown_outcome_raises() -> None:
    with OnePartitionHarness() as harness:
        lost = LostAnswer("broker-0", "/brokers/topics/orders/partitions/0/state", applied=True)
        harness.zookeeper.lost_answers += [lost] * MAX_LOST_ANSWERS
        with pytest.raises(ZooKeeperFailure, match="Unknown"):
            harness.move(OFFLINE, 2)


@pytest.mark.spec("RSM-7")
def test_states_written_before_a_zookeeper_failure_leave_the_isr_and_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = Transactions._send
    sent = 0

    async def refuse_the_second(self: Transactions, *transaction: Any) -> object:
        nonlocal sent
        sent += 1
        if sent > 1:
            raise ZooKeeperFailure(Failure.NO_NODE, "check of /controller_epoch")
        return await accepted(self, *transaction)

    with TermHarness({"orders": {0: [1, 2], 1: [1, 2]}}) as harness:
        both = [tp("orders-0"), tp("orders-1")]
        harness.run(on_new_partition_creation(harness.term, both))
        harness.settle()
        harness.clear_history()
        monkeypatch.setattr("understudy.foundation.zk.transactions.MAX_OPS", 1)
        monkeypatch.setattr(Transactions, "_send", refuse_the_second)
        harness.run(rsm.handle_state_changes(harness.term, {BrokerId(2): both}, OFFLINE))
        harness.settle()
        assert [harness.replica_state(name, 2) for name in ("orders-0", "orders-1")] == [OFFLINE, ONLINE]
        assert harness.known("orders-0") == led(1, (1,), epoch=1, version=1, by=1)
        (failed,) = harness.controller.records(LeadershipNotWritten)
        assert failed.partitions == (Refused("orders", 1, "NoNode"),)
        assert harness.broker(1).requests(LeaderAndIsrSent) == [
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=1, isr=(1,), epoch=1, version=1)], live_leaders=[1]
            )
        ]


@pytest.mark.spec("RSM-6", "RSM-7", "RB-4")
def test_offline_follower_leaves_the_isr() -> None:
    with OnePartitionHarness() as harness:
        harness.move(OFFLINE, 2)
        harness.settle()
        assert harness.state("orders", 0) == harness.known("orders-0") == led(1, (1, 0), epoch=1, version=1, by=1)
        assert harness.replica_state("orders-0", 2) is OFFLINE
        metadata = UpdateMetadataSent(
            [StateSent(partition="orders-0", leader=1, isr=(1, 0), epoch=1, version=1)], live_brokers=[0, 1, 2]
        )
        assert harness.broker(1).requests() == [
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=1, isr=(1, 0), epoch=1, version=1)], live_leaders=[1]
            ),
            metadata,
        ]
        assert harness.broker(2).requests() == [
            metadata,
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=0)]),
        ], "stopped as of before it left"
        (written,) = harness.controller.records(LeadershipWritten)
        assert written.why == "isr-removal"


@pytest.mark.spec("RSM-6", "RSM-7")
def test_offline_leader_leaves_the_partition_without_a_leader() -> None:
    with OnePartitionHarness() as harness:
        harness.move(OFFLINE, 1)
        assert harness.state("orders", 0) == led(-1, (2, 0), epoch=1, version=1, by=1)


@pytest.mark.spec("RSM-7", "BR-15")
def test_replica_outside_the_isr_needs_no_write() -> None:
    with OnePartitionHarness() as harness:
        harness.move(OFFLINE, 2)
        harness.term.context.put_leadership({tp("orders-0"): led(1, (1, 0), epoch=1, version=1, by=0)})
        zxid = harness.zookeeper.zxid
        harness.settle()
        harness.clear_history()
        harness.move(OFFLINE, 2)
        harness.settle()
        assert harness.zookeeper.zxid == zxid
        assert harness.known("orders-0") == led(1, (1, 0), epoch=1, version=1, by=1)
        assert harness.broker(1).requests()[0] == LeaderAndIsrSent(
            [StateSent(partition="orders-0", leader=1, isr=(1, 0), epoch=1, version=1)], live_leaders=[1]
        )


@pytest.mark.spec("RSM-1", "RSM-7")
def test_two_brokers_have_two_writes_and_one_batch() -> None:
    with OnePartitionHarness() as harness:
        harness.move(OFFLINE, 1, 2)
        harness.settle()
        assert harness.state("orders", 0) == led(-1, (0,), epoch=2, version=2, by=1)
        assert harness.broker(0).requests() == [
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=-1, isr=(0,), epoch=2, version=2)], live_leaders=[]
            ),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=-1, isr=(0,), epoch=2, version=2)], live_brokers=[0, 1, 2]
            ),
        ]
        assert harness.broker(1).requests()[-1] == StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=0)])
        assert harness.broker(2).requests()[-1] == StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=1)])


@pytest.mark.spec("RSM-7", "P6")
def test_conflicting_state_is_read_and_decided_again() -> None:
    with OnePartitionHarness() as harness:
        harness.rewrite_state("orders", 0)
        harness.move(OFFLINE, 2)
        assert harness.state("orders", 0) == harness.known("orders-0") == led(1, (1, 0), epoch=1, version=2, by=1)
        assert harness.replica_state("orders-0", 2) is OFFLINE


@pytest.mark.spec("RSM-6", "RSM-7")
def test_missing_state_keeps_the_replica_state() -> None:
    with OnePartitionHarness() as harness:
        harness.operator.run(harness.operator.client.write(Delete("/brokers/topics/orders/partitions/0/state")))
        harness.move(OFFLINE, 2)
        assert harness.replica_state("orders-0", 2) is ONLINE
        (failed,) = harness.controller.records(LeadershipNotWritten)
        assert (failed.why, *failed.partitions) == ("isr-removal", Refused("orders", 0, "NoNode"))


@pytest.mark.spec("RSM-6", "TD-5")
def test_isr_removal_of_a_queued_topic_sends_no_leader_and_isr() -> None:
    with OnePartitionHarness() as harness:
        harness.term.context.topics_to_be_deleted.add("orders")
        harness.move(OFFLINE, 2)
        harness.settle()
        assert harness.state("orders", 0) == led(1, (1, 0), epoch=1, version=1, by=1)
        assert harness.replica_state("orders-0", 2) is OFFLINE
        assert harness.broker(1).requests() == []
        assert harness.broker(2).requests() == [StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=-2)])]


@pytest.mark.spec("RSM-6")
def test_replica_without_leadership_goes_offline() -> None:
    with OnePartitionHarness() as harness:
        del harness.term.context.leadership[tp("orders-0")]
        harness.term.context.changes += 1
        harness.move(OFFLINE, 2)
        harness.settle()
        assert harness.replica_state("orders-0", 2) is OFFLINE
        assert harness.broker(1).requests() == [UpdateMetadataSent([], live_brokers=[0, 1, 2])]
        assert harness.broker(2).requests() == [
            UpdateMetadataSent([], live_brokers=[0, 1, 2]),
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=-1)]),
        ]


@pytest.mark.spec("RSM-8", "RSM-9", "RSM-10")
def test_states_of_a_replica_being_deleted() -> None:
    with OnePartitionHarness() as harness:
        harness.move(OFFLINE, 2)
        harness.settle()
        harness.clear_history()
        harness.move(ReplicaState.DELETION_STARTED, 2)
        harness.settle()
        assert harness.broker(2).requests() == [
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=1, delete=True)])
        ]
        harness.clear_history()
        harness.move(ReplicaState.DELETION_SUCCESSFUL, 2)
        harness.move(ReplicaState.NON_EXISTENT, 2)
        harness.settle()
        assert harness.broker(2).requests() == []
        assert harness.replica_state("orders-0", 2) is None
        assert harness.term.context.partition_assignment(tp("orders-0")) == replicas(1, 0)
        assert [record.target for record in harness.controller.records(ReplicasMoved)] == [
            "ReplicaDeletionSuccessful",
            "NonExistentReplica",
        ]


@pytest.mark.spec("RSM-2", "C9")
def test_invalid_transition_is_recorded_and_skipped() -> None:
    with OnePartitionHarness() as harness:
        harness.move(ReplicaState.DELETION_STARTED, 2)
        assert harness.replica_state("orders-0", 2) is ONLINE
        (refused,) = harness.controller.records(InvalidTransition)
        assert (refused.replica, refused.source, refused.target) == (2, "OnlineReplica", "ReplicaDeletionStarted")


@pytest.mark.spec("RSM-1", "EL-14")
def test_deposed_controller_cannot_shrink_an_isr() -> None:
    with OnePartitionHarness() as harness:
        harness.depose()
        with pytest.raises(ControllerMoved):
            harness.move(OFFLINE, 2)
        harness.settle()
        assert harness.state("orders", 0) == led(1, (1, 2, 0), by=1)
        assert [broker.requests() for broker in harness.brokers.values()] == [[], [], []]


@pytest.mark.spec("FO-9")
def test_startup_starts_online_replicas_and_removes_offline_ones_from_isrs() -> None:
    with OnePartitionHarness() as harness:
        harness.term.context.replica_states.clear()
        harness.term.context.remove_live_brokers(ids(2))
        harness.run(rsm.startup(harness.term))
        harness.settle()
        assert [harness.replica_state("orders-0", broker) for broker in (0, 1, 2)] == [ONLINE, ONLINE, OFFLINE]
        assert harness.broker(1).requests() == [
            LeaderAndIsrSent([StateSent(partition="orders-0", leader=1, isr=(1, 2, 0))], live_leaders=[1]),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=1, isr=(1, 2, 0), offline=(2,))], live_brokers=[0, 1]
            ),
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=1, isr=(1, 0), epoch=1, version=1)], live_leaders=[1]
            ),
            UpdateMetadataSent(
                [StateSent(partition="orders-0", leader=1, isr=(1, 0), epoch=1, version=1, offline=(2,))],
                live_brokers=[0, 1],
            ),
        ]
        assert harness.partition_states("orders-0") == [PartitionState.ONLINE]
        moved = [(record.target, *record.replicas) for record in harness.controller.records(ReplicasMoved)]
        assert moved == [("OfflineReplica", Transition("orders", 0, 2, "ReplicaDeletionIneligible"))]
