"""Tests of requests to reassign partitions, and of the events that follow."""

from __future__ import annotations

import json

import pytest

from tests.controller.harness import ControllerHarness
from tests.controller.reassignment.harness import ZNODE, ReassignmentHarness
from tests.controller.requests import LeaderAndIsrSent, StateSent
from tests.controller.values import ids, replicas, tp
from understudy.controller import topic_deletion
from understudy.controller.events import (
    ZkPartitionReassignment,
)
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.transitions import PartitionState
from understudy.foundation.zk.client import Delete
from understudy.foundation.zk.kafka_zk_client import ControllerMoved
from understudy.foundation.zk.znodes import TopicPartitionStateZNode

# ------------------------------------------------------------------ requests about unknown partitions


@pytest.mark.spec("RA-5", "RA-2", "TD-11")
def test_alter_reassignments_responds_with_an_error_for_each_partition() -> None:
    with ReassignmentHarness({"orders": {0: [0, 1, 2]}, "payments": {0: [0, 1]}}) as harness:
        harness.term.context.topics_to_be_deleted.add("payments")
        asked = {"orders-9": [1], "payments-0": [2], "orders-0": [2, 2], "nope-0": None}
        assert harness.reassign(asked) == {
            "orders-9": "UNKNOWN_TOPIC_OR_PARTITION",
            "payments-0": "UNKNOWN_TOPIC_OR_PARTITION",
            "orders-0": "INVALID_REPLICA_ASSIGNMENT",
            "nope-0": "NO_REASSIGNMENT_IN_PROGRESS",
        }
        assert harness.steps() == []


@pytest.mark.spec("RA-5")
def test_failed_reassignment_does_not_affect_others() -> None:
    with ReassignmentHarness({"orders": {0: [0, 1, 2]}, "payments": {0: [0, 1]}}) as harness:
        gone = TopicPartitionStateZNode.path(tp("payments-0"))
        harness.operator.run(harness.operator.client.write(Delete(gone)))
        results = harness.reassign({"payments-0": [2, 3], "orders-0": [3, 1, 2]})
        assert results == {"payments-0": "UNKNOWN_SERVER_ERROR", "orders-0": "NONE"}
        assert harness.list_moves().keys() == {tp("payments-0"), tp("orders-0")}  # type: ignore[union-attr]  # no ApiError here


@pytest.mark.spec("RA-5", "EL-13")
def test_deposed_controller_starts_no_reassignment() -> None:
    with ReassignmentHarness() as harness:
        harness.depose()
        with pytest.raises(ControllerMoved):
            harness.reassign({"orders-0": [3, 1, 2]})
        assert harness.assignment("orders-0") == replicas(0, 1, 2)


@pytest.mark.spec("RA-7")
def test_list_reassignments_returns_only_those_in_progress() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-1": [1, 3]})
        moving = {tp("orders-1"): replicas(1, 3, 2, 0, adding=(3,), removing=(2, 0))}
        assert harness.list_moves() == moving
        assert harness.list_moves("orders-0", "orders-1", "nope-7") == moving
        assert harness.list_moves("orders-0") == {}


# ------------------------------------------------------------------ broker changes


@pytest.mark.spec("RA-6", "RA-13", "BUG-19", "BR-12")
def test_reassignment_to_an_offline_broker_waits_for_it() -> None:
    with ReassignmentHarness() as harness:
        harness.fail_broker(3)
        assert harness.reassign({"orders-0": [3, 1]}) == {"orders-0": "INVALID_REPLICA_ASSIGNMENT"}
        harness.request_by_znode({"orders-0": [3, 1]})
        assert harness.process_znode() == {tp("orders-0")}
        assert ZNODE in harness.znodes()
        harness.start_recording()
        harness.restart_broker(3)
        # from the beginning: it has received no request yet
        assert harness.steps() == ["state 0 0@2 [0, 1, 2]"]
        assert (
            LeaderAndIsrSent(
                [StateSent(partition="orders-0", leader=0, isr=(0, 1, 2), epoch=2, version=2, is_new=True)],
                live_leaders=[0],
            )
            in harness.broker(3).requests()
        )
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.assignment("orders-0") == replicas(3, 1)
        assert ZNODE not in harness.znodes()


@pytest.mark.spec("RA-13")
def test_only_target_brokers_resume_a_reassignment() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 1]})
        harness.start_recording()
        harness.run(partition_reassignment.resume_for_brokers(harness.term, ids(0, 2, 4)))
        assert harness.steps() == []


@pytest.mark.spec("RA-15")
def test_reassignment_of_a_leaderless_partition_can_be_cancelled() -> None:
    with ReassignmentHarness({"orders": {0: [1]}}) as harness:
        harness.reassign({"orders-0": [3]})
        harness.fail_broker(1)
        assert harness.partition_states("orders-0") == [PartitionState.OFFLINE]
        assert harness.reassign({"orders-0": None}) == {"orders-0": "NONE"}
        assert harness.assignment("orders-0") == replicas(1)
        assert harness.list_moves() == {}


# ------------------------------------------------------------------ the znode


@pytest.mark.spec("RA-6", "RA-14")
def test_reassign_partitions_znode_loses_entries_that_failed() -> None:
    with ReassignmentHarness() as harness:
        harness.request_by_znode({"orders-0": [3, 1, 2], "nope-0": [1], "orders-1": []})
        assert harness.process_znode() == {tp("orders-0")}
        listed = json.loads(harness.znodes()[ZNODE] or b"")["partitions"]
        assert listed == [{"topic": "orders", "partition": 0, "replicas": [3, 1, 2]}]
        assert harness.assignment("orders-1") == replicas(1, 2, 0)
        harness.start_recording()
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.steps()[-2:] == ["assignment 0:[3, 1, 2] 1:[1, 2, 0]", f"delete {ZNODE}"]
        assert harness.put.count(ZkPartitionReassignment()) == 1


@pytest.mark.spec("RA-14")
def test_reassign_partitions_znode_is_read_again_after_its_deletion() -> None:
    """The watch has fired at the deletion; a znode created before the next watch is armed is found too."""
    with ReassignmentHarness() as harness:
        harness.request_by_znode({"orders-0": [2, 1, 0]})
        harness.process_znode()
        assert harness.put.count(ZkPartitionReassignment()) == 1
        harness.request_by_znode({"orders-1": [0, 1, 2]})
        harness.process_znode()
        assert harness.assignment("orders-1") == replicas(0, 1, 2)
        assert harness.process_znode() == frozenset()


@pytest.mark.spec("RA-6", "RA-14")
def test_request_arms_the_watch_after_the_znode_was_deleted_by_hand() -> None:
    """Kafka checks whether the znode exists, which arms the watch."""
    with ControllerHarness(electable=(0,), brokers=(1, 2)) as harness:
        harness.start()
        harness.create_topic("orders", {0: [0, 1], 1: [0, 1]})
        harness.write_znode(ZNODE, b'{"version":1,"partitions":[]}')
        harness.operator.run(harness.operator.client.write(Delete(ZNODE)))
        harness.settle()
        asked = {tp("orders-0"): ids(1, 0)}
        assert harness.broker(0).run(harness.broker(0).controller.alter_partition_reassignments(asked)) == {
            tp("orders-0"): None
        }
        harness.write_znode(ZNODE, b'{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[1,0]}]}')
        assert b'"1":[1,0]' in (harness.znodes()["/brokers/topics/orders"] or b"")


@pytest.mark.spec("RA-14")
def test_entries_of_other_partitions_stay_in_the_znode() -> None:
    with ReassignmentHarness() as harness:
        harness.fail_broker(4)
        harness.request_by_znode({"orders-0": [2, 1, 0], "orders-1": [4, 1]})
        harness.process_znode()
        assert [each["partition"] for each in json.loads(harness.znodes()[ZNODE] or b"")["partitions"]] == [1]
        assert ZkPartitionReassignment() not in harness.put


@pytest.mark.spec("RA-14")
def test_completed_reassignment_leaves_the_next_one_in_the_znode() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 1, 2]})
        harness.request_by_znode({"orders-0": [4, 1, 2]})
        harness.sync("orders-0", 0, 1, 2, 3)
        assert harness.assignment("orders-0") == replicas(3, 1, 2)
        assert ZNODE in harness.znodes()


@pytest.mark.spec("RA-6")
def test_malformed_reassign_partitions_znode_is_ignored() -> None:
    with ReassignmentHarness() as harness:
        harness.write_znode(ZNODE, b"{")
        assert harness.process_znode() == frozenset()
        assert harness.steps() == [f"write {ZNODE}"]


@pytest.mark.spec("RA-4")
def test_request_replaces_an_older_entry_in_the_znode() -> None:
    with ReassignmentHarness() as harness:
        harness.fail_broker(4)
        harness.request_by_znode({"orders-0": [4, 1, 2], "orders-1": [4, 2, 0]})
        harness.process_znode()
        harness.start_recording()
        harness.reassign({"orders-0": [3, 1, 2], "orders-1": [1, 1]})
        assert harness.steps()[0] == f"write {ZNODE}"
        # a refused request leaves the older one in place
        assert [each["partition"] for each in json.loads(harness.znodes()[ZNODE] or b"")["partitions"]] == [1]
        harness.reassign({"orders-1": None})
        assert ZNODE not in harness.znodes()


# ------------------------------------------------------------------ failover


@pytest.mark.spec("FO-11")
def test_failover_resumes_reassignments_of_the_znode_first() -> None:
    with ReassignmentHarness() as harness:
        harness.reassign({"orders-0": [3, 1, 2], "orders-1": [3, 2, 0]})
        harness.request_by_znode({"orders-0": [4, 1, 2]})
        harness.start_recording()
        harness.run(partition_reassignment.resume(harness.term))
        assert harness.steps() == [
            "assignment 0:[4, 1, 2, 0]+[4]-[0] 1:[3, 2, 0, 1]+[3]-[1]",
            "state 0 0@2 [0, 1, 2]",
            "state 1 1@2 [1, 2, 0]",
        ]


# ------------------------------------------------------------------ many reassignments


@pytest.mark.spec("TD-1", "TD-12")
def test_reassignment_ends_when_its_topic_is_deleted() -> None:
    with ReassignmentHarness({"orders": {0: [0, 1, 2]}, "payments": {0: [0, 1]}}) as harness:
        harness.reassign({"orders-0": [3, 1, 2]})
        harness.fail_broker(2)
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.run(topic_deletion.process_topic_deletion(harness.term))
        context = harness.term.context
        assert context.topics_with_deletion_started == {"orders"}
        harness.start_recording()
        harness.sync("orders-0", 2, 3, 1)
        harness.run(partition_reassignment.resume_for_brokers(harness.term, ids(3)))
        assert [step for step in harness.steps() if step.startswith("assignment")] == []
        assert harness.list_moves() == {}
        # In Kafka the marker of another topic would find the reassignment in progress, and "orders" would wait for it.
        context.topics_ineligible_for_deletion.clear()
        harness.write_znode("/admin/delete_topics/payments", b"")
        harness.run(topic_deletion.process_topic_deletion(harness.term))
        assert "payments" in context.topics_with_deletion_started
        assert context.partitions_being_reassigned == set()
