"""Tests of the phases of a reassignment: the writes, and the requests sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.controller.reassignment.harness import ReassignmentHarness
from tests.controller.requests import LeaderAndIsrSent, ReplicaStopped, StateSent, StopReplicaSent, UpdateMetadataSent
from tests.controller.values import ids, led, replicas, state, tp
from understudy.controller.partition_state_machine import Strategy, handle_state_changes
from understudy.controller.reassignment import partition_reassignment, phases
from understudy.controller.settings import ControllerSettings
from understudy.controller.topic_changes import process_partition_modifications
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.eventlog.records import LeadershipNotWritten
from understudy.foundation.zk.client import SetData
from understudy.foundation.zk.znodes import TopicPartitionStateZNode

# ------------------------------------------------------------------ one reassignment


@pytest.mark.spec("RA-8", "RA-10", "RA-5", "RB-10")
def test_phases_u_and_a() -> None:
    with ReassignmentHarness() as harness:
        assert harness.reassign({"orders-0": [3, 1, 2]}) == {"orders-0": "NONE"}
        assert harness.steps() == ["assignment 0:[3, 1, 2, 0]+[3]-[0] 1:[1, 2, 0]", "state 0 0@1 [0, 1, 2]"]
        assert harness.assignment("orders-0") == replicas(3, 1, 2, 0, adding=(3,), removing=(0,))
        assert harness.replica_state("orders-0", 3) is ReplicaState.NEW
        assert harness.list_moves() == {tp("orders-0"): harness.assignment("orders-0")}
        assert harness.broker(1).requests(LeaderAndIsrSent) == [
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=0, isr=(0, 1, 2), epoch=1, version=1)], live_leaders=[0]
            )
        ]
        # as one of the origin it may not be new there; the replica being added receives it twice (A1, A2)
        assert (
            harness.broker(3).requests(LeaderAndIsrSent)
            == [
                LeaderAndIsrSent(
                    [StateSent(partition="orders-0", leader=0, isr=(0, 1, 2), epoch=1, version=1, is_new=True)],
                    live_leaders=[0],
                )
            ]
            * 2
        )
        assert harness.requests_about(4, "orders-0") == [UpdateMetadataSent, UpdateMetadataSent]


@pytest.mark.spec("RA-11", "RA-12", "BUG-15", "RA-13", "PSM-13")
def test_phase_b() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 1, 2]})
        harness.start_recording()
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.steps() == [
            "state 0 0@1 [0, 1, 2, 3]",
            "state 0 3@2 [0, 1, 2, 3]",
            "state 0 3@3 [1, 2, 3]",
            "assignment 0:[3, 1, 2] 1:[1, 2, 0]",
        ]
        # the epoch from before it left, then the last one; no response is waited for
        assert harness.broker(0).requests(StopReplicaSent) == [
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=2)]),
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=3, delete=True)]),
        ]
        assert harness.assignment("orders-0") == replicas(3, 1, 2)
        assert harness.replica_state("orders-0", 3) is ReplicaState.ONLINE
        assert harness.replica_state("orders-0", 0) is None
        assert harness.list_moves() == {}
        assert harness.requests_about(4, "orders-0")[-1] is UpdateMetadataSent


@pytest.mark.spec("RA-9", "RA-13")
def test_phase_b_waits_until_all_target_replicas_are_in_sync() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 4]})
        harness.start_recording()
        harness.sync("orders-0", 0, 1, 2, 4)
        assert harness.steps() == ["state 0 0@1 [0, 1, 2, 4]"]
        harness.sync("orders-0", 0, 1, 2, 4, 3)
        assert harness.assignment("orders-0") == replicas(3, 4)
        assert harness.steps()[-3:] == [
            "state 0 3@4 [2, 4, 3]",
            "state 0 3@5 [4, 3]",
            "assignment 0:[3, 4] 1:[1, 2, 0]",
        ]


@pytest.mark.spec("RA-9")
def test_isr_written_by_the_leader_itself_completes_a_reassignment() -> None:
    """The state znode is watched from the start of the reassignment, because memory does not have such an ISR."""
    legacy = ControllerSettings(inter_broker_protocol_version=MetadataVersion.IBP_2_7_IV1)
    with ReassignmentHarness(settings=legacy) as harness:
        watched: list[TopicPartition] = []
        read = harness.term.zk.states.read

        async def watching(partitions: Sequence[TopicPartition], *, watch: bool = False) -> object:
            watched.extend(partitions if watch else ())
            return await read(partitions, watch=watch)

        harness.term.zk.states.read = watching  # type: ignore[method-assign,assignment]  # replaces the read
        harness.reassign({"orders-0": [3, 1, 2]})
        assert watched == [tp("orders-0")]
        harness.start_recording()
        path = TopicPartitionStateZNode.path(tp("orders-0"))
        data = TopicPartitionStateZNode.encode(state(0, (0, 1, 2, 3), epoch=1), 1)
        harness.operator.run(harness.operator.client.write(SetData(path, data)))
        harness.run(partition_reassignment.process_partition_reassignment_isr_change(harness.term, tp("orders-0")))
        assert harness.assignment("orders-0") == replicas(3, 1, 2)
        assert harness.known("orders-0") == led(3, (1, 2, 3), epoch=3, version=4, by=1)


@pytest.mark.spec("RA-13")
def test_isr_watch_after_completion_changes_nothing() -> None:
    with ReassignmentHarness() as harness:
        harness.run(partition_reassignment.process_partition_reassignment_isr_change(harness.term, tp("orders-0")))
        assert harness.steps() == []


@pytest.mark.spec("RA-11")
def test_leader_in_the_target_stays() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 0]})
        harness.start_recording()
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.steps()[1:] == [
            "state 0 0@2 [0, 1, 2, 3]",
            "state 0 0@3 [0, 2, 3]",
            "state 0 0@4 [0, 3]",
            "assignment 0:[3, 0] 1:[1, 2, 0]",
        ]


@pytest.mark.spec("RA-11")
def test_offline_leader_in_the_target_is_replaced() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [0, 1, 3]})
        harness.start_recording()
        harness.term.context.shutting_down_broker_ids.add(BrokerId(0))
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.steps()[1:3] == ["state 0 1@2 [0, 1, 2, 3]", "state 0 1@3 [0, 1, 3]"]


@pytest.mark.spec("RA-16")
def test_reordered_replicas_complete_at_once() -> None:
    with ReassignmentHarness() as harness:
        assert harness.reassign({"orders-0": [2, 0, 1]}) == {"orders-0": "NONE"}
        assert harness.steps() == [
            "assignment 0:[2, 0, 1] 1:[1, 2, 0]",
            "state 0 0@1 [0, 1, 2]",
            "assignment 0:[2, 0, 1] 1:[1, 2, 0]",
        ]
        assert harness.requests_about(1, "orders-0") == [LeaderAndIsrSent, UpdateMetadataSent, UpdateMetadataSent]
        assert harness.requests_about(3, "orders-0") == [UpdateMetadataSent, UpdateMetadataSent]


@pytest.mark.spec("RA-18")
def test_own_assignment_writes_add_no_partitions() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 1, 2]})
        harness.start_recording()
        harness.run(process_partition_modifications(harness.term, "orders"))
        assert harness.steps() == []


# ------------------------------------------------------------------ cancelled and replaced reassignments


@pytest.mark.spec("RA-15", "RA-3", "BUG-19")
def test_reassignment_is_cancelled() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 4, 1]})
        harness.sync("orders-0", 0, 1, 2, 4)
        harness.start_recording()
        assert harness.reassign({"orders-0": None, "orders-1": None}) == {
            "orders-0": "NONE",
            "orders-1": "NO_REASSIGNMENT_IN_PROGRESS",
        }
        # the original replicas in the order of the reassignment; the added one leaves the ISR, and the epoch is raised
        assert harness.steps() == [
            "assignment 0:[1, 0, 2] 1:[1, 2, 0]",
            "state 0 0@2 [0, 1, 2]",
            "state 0 0@3 [0, 1, 2]",
            "assignment 0:[1, 0, 2] 1:[1, 2, 0]",
        ]
        for broker in (3, 4):
            stop, delete = harness.broker(broker).requests(StopReplicaSent)
            assert isinstance(stop, StopReplicaSent)
            assert [replica.delete for replica in stop.replicas] == [False]
            assert isinstance(delete, StopReplicaSent)
            assert [replica.delete for replica in delete.replicas] == [True]
            assert harness.replica_state("orders-0", broker) is None
        # the replica that had not joined is stopped with an epoch that it may have received already (KAFKA-13972)
        assert StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=1)]) in harness.broker(3).requests()
        assert harness.list_moves() == {}


@pytest.mark.spec("RA-8", "RA-3")
def test_reassignment_is_replaced_by_another() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 1, 2]})
        harness.start_recording()
        harness.reassign({"orders-0": [4, 1]})
        assert harness.steps() == ["assignment 0:[4, 1, 2, 0]+[4]-[2, 0] 1:[1, 2, 0]", "state 0 0@2 [0, 1, 2]"]
        assert harness.broker(3).requests(StopReplicaSent) == [
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=1)]),
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=1, delete=True)]),
        ]
        assert harness.replica_state("orders-0", 3) is None
        assert harness.replica_state("orders-0", 4) is ReplicaState.NEW


@pytest.mark.spec("RA-8")
def test_leader_stopped_by_another_reassignment_is_replaced() -> None:
    """In Kafka the partition has no leader until a broker starts or fails."""
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 4]})
        harness.sync("orders-0", 0, 1, 2, 3)
        harness.run(handle_state_changes(harness.term, [tp("orders-0")], PartitionState.ONLINE, Strategy.PREFERRED))
        harness.start_recording()
        harness.reassign({"orders-0": [4, 1]})
        assert harness.steps()[1:] == ["state 0 -1@3 [0, 1, 2]", "state 0 1@4 [0, 1, 2]", "state 0 1@5 [0, 1, 2]"]
        assert harness.partition_states("orders-0") == [PartitionState.ONLINE]


@pytest.mark.spec("RA-15", "RA-8")
def test_cancellation_does_not_delete_the_only_replica_in_sync() -> None:
    """Kafka stops it and deletes its data, although no other replica may lead."""
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 4]})
        harness.sync("orders-0", 0, 1, 2, 3)
        harness.run(handle_state_changes(harness.term, [tp("orders-0")], PartitionState.ONLINE, Strategy.PREFERRED))
        harness.write_isr("orders-0", 3)
        harness.start_recording()
        moving = harness.assignment("orders-0")
        assert harness.reassign({"orders-0": None, "orders-1": [2, 1, 0]}) == {
            "orders-0": "INVALID_REPLICA_ASSIGNMENT",
            "orders-1": "NONE",
        }
        assert harness.reassign({"orders-0": [4, 1]}) == {"orders-0": "INVALID_REPLICA_ASSIGNMENT"}
        harness.request_by_znode({"orders-0": [1, 2]})
        assert harness.process_znode() == frozenset()
        assert harness.broker(3).requests() != []
        assert harness.broker(3).requests(StopReplicaSent) == []
        assert harness.assignment("orders-0") == moving
        harness.write_isr("orders-0", 3, 0)
        assert harness.reassign({"orders-0": None}) == {"orders-0": "NONE"}


@pytest.mark.spec("RA-15")
@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("joins_late", [False, True])
def test_unassigned_replica_in_sync_is_stopped_after_failover(joins_late: bool, noted: bool) -> None:
    """The old controller died between writing the topic's znode and stopping the replica, so no znode names broker 3
    any more. The leader has not received the cancellation either, and may let it join the ISR even after the
    takeover."""
    with ReassignmentHarness() as harness:
        if noted:
            harness.term.context.replica_states[BrokerId(3)] = {tp("orders-0"): ReplicaState.NON_EXISTENT}
        harness.write_isr("orders-0", 0, 1, 2, 3)
        harness.start_recording()
        if joins_late:
            harness.run(partition_reassignment.maybe_complete(harness.term, [tp("orders-0")]))
        else:
            harness.run(partition_reassignment.resume(harness.term))
        harness.settle()
        assert harness.steps() == [
            "state 0 0@1 [0, 1, 2, 3]",
            "state 0 0@2 [0, 1, 2]",
            "assignment 0:[0, 1, 2] 1:[1, 2, 0]",
        ]
        assert (
            StopReplicaSent([ReplicaStopped(partition="orders-0", epoch=2, delete=True)])
            in harness.broker(3).requests()
        )


# ------------------------------------------------------------------ failures


def test_no_replica_is_stopped_if_no_target_replica_can_lead() -> None:
    """Kafka continues, and deletes the only replicas that are alive."""
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3]})
        harness.start_recording()
        harness.term.context.shutting_down_broker_ids.add(BrokerId(3))
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.steps() == ["state 0 0@1 [0, 1, 2, 3]"]
        assert harness.assignment("orders-0") == replicas(3, 0, 1, 2, adding=(3,), removing=(0, 1, 2))
        assert [failed.why for failed in harness.controller.records(LeadershipNotWritten)] == ["reassignment"]
        harness.term.context.shutting_down_broker_ids.clear()
        harness.run(partition_reassignment.resume_for_brokers(harness.term, ids(3)))
        assert harness.assignment("orders-0") == replicas(3)


def test_state_that_keeps_conflicting_fails_its_reassignment() -> None:
    with ReassignmentHarness(settings=ControllerSettings(conflict_rounds=1)) as harness:
        harness.rewrite_state("orders", 0)
        harness.term.context.put_leadership({tp("orders-0"): led(0, (0, 1, 2), by=1)})

        async def as_memory_has_it(
            partitions: Sequence[TopicPartition], *, watch: bool = False
        ) -> dict[TopicPartition, object]:
            return {partition: harness.term.context.leadership[partition] for partition in partitions}

        harness.term.zk.states.read = as_memory_has_it  # type: ignore[method-assign,assignment]  # replaces the read
        assert harness.reassign({"orders-0": [3, 1, 2]}) == {"orders-0": "UNKNOWN_SERVER_ERROR"}
        assert harness.replica_state("orders-0", 3) is ReplicaState.NEW, "it is assigned, and its broker may start"


@pytest.mark.spec("RA-10")
def test_replica_added_to_a_partition_without_state_follows_its_broker() -> None:
    """The reassignment fails if the partition never had a leader, and its assignment stays written. The broker of
    the replica to add then fails and starts; no transition is invalid, which the harness checks at its end."""
    with ReassignmentHarness({"orders": {0: [9]}}) as harness:
        assert harness.reassign({"orders-0": [3]}) == {"orders-0": "UNKNOWN_SERVER_ERROR"}
        assert harness.assignment("orders-0") == replicas(3, 9, adding=(3,), removing=(9,))
        harness.fail_broker(3)
        assert harness.replica_state("orders-0", 3) is ReplicaState.OFFLINE
        harness.restart_broker(3)
        assert harness.replica_state("orders-0", 3) is ReplicaState.ONLINE
        assert harness.known("orders-0") == led(3, (3,), epoch=1, version=1, by=1)
        assert harness.assignment("orders-0") == replicas(3), "the start has resumed the reassignment"


def test_conflicting_state_is_read_again() -> None:
    with ReassignmentHarness() as harness:
        before = harness.known("orders-0")
        harness.rewrite_state("orders", 0)
        read = harness.term.zk.states.read
        asked = []

        async def late(partitions: Sequence[TopicPartition], *, watch: bool = False) -> object:
            asked.append(partitions)
            return {tp("orders-0"): before} if len(asked) == 1 else await read(partitions, watch=watch)

        harness.term.zk.states.read = late  # type: ignore[method-assign,assignment]  # replaces the read
        assert harness.reassign({"orders-0": [3, 1, 2]}) == {"orders-0": "NONE"}
        assert harness.steps()[-1] == "state 0 0@1 [0, 1, 2]"


@pytest.mark.spec("BUG-18")
def test_partitions_added_to_the_znode_meanwhile_are_kept() -> None:
    """They were added after the controller last read the znode. Kafka overwrites them."""
    with ReassignmentHarness() as harness:
        harness.add_partitions("orders", {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1]})
        harness.reassign({"orders-0": [3, 1, 2]})
        assert harness.steps()[-2] == "assignment 0:[3, 1, 2, 0]+[3]-[0] 1:[1, 2, 0] 2:[2, 0, 1]"
        harness.run(process_partition_modifications(harness.term, "orders"))
        assert harness.known("orders-2") == led(2, (2, 0, 1), by=1)


def test_many_reassignments_share_the_writes_of_their_topic() -> None:
    many = {number: [0, 1] for number in range(100)}
    with ReassignmentHarness({"orders": many}) as harness:
        results = harness.reassign({f"orders-{number}": [0, 3] for number in many})
        assert set(results.values()) == {"NONE"}
        writes = [step for step in harness.steps() if step.startswith("assignment")]
        assert len(writes) == phases.TURNS
        assert writes[-1].count("+[3]-[1]") == len(many)
        moves = harness.list_moves()
        assert isinstance(moves, Mapping)
        assert len(moves) == len(many)


def test_a_replica_that_was_never_started_is_not_stopped() -> None:
    """The harness sees to it that no transition was refused."""
    with ReassignmentHarness() as harness:
        assert harness.run(phases._stop_replicas(harness.term, {BrokerId(3): [tp("orders-0")]})) == frozenset()
        assert harness.replica_state("orders-0", 3) is None
        assert harness.steps() == []
