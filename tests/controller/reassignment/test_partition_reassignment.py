"""Who asks for partitions to move, and what happens meanwhile."""

from __future__ import annotations

import json

import pytest

from controller import topic_deletion
from controller.events import (
    ZkPartitionReassignment,
)
from controller.reassignment import partition_reassignment
from controller.transitions import PartitionState
from foundation.zk.client import Delete
from foundation.zk.kafka_zk_client import ControllerMoved
from foundation.zk.znodes import TopicPartitionStateZNode
from tests.controller.reassignment.moving_orders import ZNODE, Orders
from tests.controller.stage import Stage
from tests.controller.values import ids, replicas, tp

# ------------------------------------------------------------------ who asks for what there is not


@pytest.mark.spec("RA-5", "RA-2", "TD-11")
def test_what_cannot_be_moved_is_said_of_each() -> None:
    with Orders({"orders": {0: [0, 1, 2]}, "payments": {0: [0, 1]}}) as office:
        office.term.context.topics_to_be_deleted.add("payments")
        asked = {"orders-9": [1], "payments-0": [2], "orders-0": [2, 2], "nope-0": None}
        assert office.reassign(asked) == {
            "orders-9": "UNKNOWN_TOPIC_OR_PARTITION",
            "payments-0": "UNKNOWN_TOPIC_OR_PARTITION",
            "orders-0": "INVALID_REPLICA_ASSIGNMENT",
            "nope-0": "NO_REASSIGNMENT_IN_PROGRESS",
        }
        assert office.steps() == []


@pytest.mark.spec("RA-5")
def test_one_failure_leaves_the_others_alone() -> None:
    with Orders({"orders": {0: [0, 1, 2]}, "payments": {0: [0, 1]}}) as office:
        gone = TopicPartitionStateZNode.path(tp("payments-0"))
        office.operator.run(office.operator.client.write(Delete(gone)))
        results = office.reassign({"payments-0": [2, 3], "orders-0": [3, 1, 2]})
        assert results == {"payments-0": "UNKNOWN_SERVER_ERROR", "orders-0": "NONE"}
        assert office.list_moves().keys() == {tp("payments-0"), tp("orders-0")}  # type: ignore[union-attr]


@pytest.mark.spec("RA-5", "EL-13")
def test_who_is_no_controller_any_more_moves_nothing() -> None:
    with Orders() as office:
        office.depose()
        with pytest.raises(ControllerMoved):
            office.reassign({"orders-0": [3, 1, 2]})
        assert office.assignment("orders-0") == replicas(0, 1, 2)


@pytest.mark.spec("RA-7")
def test_only_what_moves_is_listed() -> None:
    with Orders() as office:
        office.reassign({"orders-1": [1, 3]})
        moving = {tp("orders-1"): replicas(1, 3, 2, 0, adding=(3,), removing=(2, 0))}
        assert office.list_moves() == moving
        assert office.list_moves("orders-0", "orders-1", "nope-7") == moving
        assert office.list_moves("orders-0") == {}


# ------------------------------------------------------------------ brokers come and go


@pytest.mark.spec("RA-6", "RA-13", "BUG-19", "BR-12")
def test_a_move_to_a_dead_broker_waits_for_it() -> None:
    with Orders() as office:
        office.lose(3)
        assert office.reassign({"orders-0": [3, 1]}) == {"orders-0": "INVALID_REPLICA_ASSIGNMENT"}
        office.ask_by_znode({"orders-0": [3, 1]})
        assert office.process_znode() == {tp("orders-0")}
        assert ZNODE in office.znodes()
        office.start_chapter()
        office.bring_back(3)
        # once more from the beginning: nobody has told it anything
        assert office.steps() == ["state 0 0@2 [0, 1, 2]"]
        assert "LISR E1 orders-0* 0@2.2/1 [0, 1, 2] leaders [0]" in office.member(3).told()
        office.sync("orders-0", 0, 1, 2, 3)
        assert office.assignment("orders-0") == replicas(3, 1)
        assert ZNODE not in office.znodes()


@pytest.mark.spec("RA-13")
def test_only_brokers_of_the_target_matter() -> None:
    with Orders() as office:
        office.reassign({"orders-0": [3, 1]})
        office.start_chapter()
        office.run(partition_reassignment.resume_for_brokers(office.term, ids(0, 2, 4)))
        assert office.steps() == []


@pytest.mark.spec("RA-15")
def test_a_move_of_a_partition_without_a_leader_can_be_cancelled() -> None:
    with Orders({"orders": {0: [1]}}) as office:
        office.reassign({"orders-0": [3]})
        office.lose(1)
        assert office.partition_states("orders-0") == [PartitionState.OFFLINE]
        assert office.reassign({"orders-0": None}) == {"orders-0": "NONE"}
        assert office.assignment("orders-0") == replicas(1)
        assert office.list_moves() == {}


# ------------------------------------------------------------------ the znode


@pytest.mark.spec("RA-6", "RA-14")
def test_the_znode_asks_and_what_cannot_be_done_is_taken_out_of_it() -> None:
    with Orders() as office:
        office.ask_by_znode({"orders-0": [3, 1, 2], "nope-0": [1], "orders-1": []})
        assert office.process_znode() == {tp("orders-0")}
        listed = json.loads(office.znodes()[ZNODE] or b"")["partitions"]
        assert listed == [{"topic": "orders", "partition": 0, "replicas": [3, 1, 2]}]
        assert office.assignment("orders-1") == replicas(1, 2, 0)
        office.start_chapter()
        office.sync("orders-0", 0, 1, 2, 3)
        assert office.steps()[-2:] == ["assignment 0:[3, 1, 2] 1:[1, 2, 0]", f"delete {ZNODE}"]
        assert office.put.count(ZkPartitionReassignment()) == 1


@pytest.mark.spec("RA-14")
def test_the_znode_is_looked_for_again_when_it_has_been_deleted() -> None:
    """Its one watch has fired: whoever creates it before the next is armed is found all the same."""
    with Orders() as office:
        office.ask_by_znode({"orders-0": [2, 1, 0]})
        office.process_znode()
        assert office.put.count(ZkPartitionReassignment()) == 1
        office.ask_by_znode({"orders-1": [0, 1, 2]})
        office.process_znode()
        assert office.assignment("orders-1") == replicas(0, 1, 2)
        assert office.process_znode() == frozenset()


@pytest.mark.spec("RA-6", "RA-14")
def test_a_request_has_the_next_znode_heard_after_somebody_deleted_one_by_hand() -> None:
    """Kafka looks whether there is one, and its looking arms the watch."""
    with Stage(standing=(0,), brokers=(1, 2)) as stage:
        stage.start()
        stage.create_topic("orders", {0: [0, 1], 1: [0, 1]})
        stage.write_znode(ZNODE, b'{"version":1,"partitions":[]}')
        stage.operator.run(stage.operator.client.write(Delete(ZNODE)))
        stage.settle()
        asked = {tp("orders-0"): ids(1, 0)}
        assert stage.member(0).run(stage.member(0).controller.alter_partition_reassignments(asked)) == {
            tp("orders-0"): None
        }
        stage.write_znode(ZNODE, b'{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[1,0]}]}')
        assert b'"1":[1,0]' in (stage.znodes()["/brokers/topics/orders"] or b"")


@pytest.mark.spec("RA-14")
def test_what_others_ask_for_stays_in_the_znode() -> None:
    with Orders() as office:
        office.lose(4)
        office.ask_by_znode({"orders-0": [2, 1, 0], "orders-1": [4, 1]})
        office.process_znode()
        assert [each["partition"] for each in json.loads(office.znodes()[ZNODE] or b"")["partitions"]] == [1]
        assert ZkPartitionReassignment() not in office.put


@pytest.mark.spec("RA-14")
def test_a_move_that_ends_leaves_the_next_one_of_its_partition_in_the_znode() -> None:
    with Orders() as office:
        office.reassign({"orders-0": [3, 1, 2]})
        office.ask_by_znode({"orders-0": [4, 1, 2]})
        office.sync("orders-0", 0, 1, 2, 3)
        assert office.assignment("orders-0") == replicas(3, 1, 2)
        assert ZNODE in office.znodes()


@pytest.mark.spec("RA-6")
def test_a_znode_nobody_can_read_asks_for_nothing() -> None:
    with Orders() as office:
        office.write_znode(ZNODE, b"{")
        assert office.process_znode() == frozenset()
        assert office.steps() == [f"write {ZNODE}"]


@pytest.mark.spec("RA-4")
def test_a_request_wins_over_an_older_znode() -> None:
    with Orders() as office:
        office.lose(4)
        office.ask_by_znode({"orders-0": [4, 1, 2], "orders-1": [4, 2, 0]})
        office.process_znode()
        office.start_chapter()
        office.reassign({"orders-0": [3, 1, 2], "orders-1": [1, 1]})
        assert office.steps()[0] == f"write {ZNODE}"
        # what was refused leaves the older wish as it is
        assert [each["partition"] for each in json.loads(office.znodes()[ZNODE] or b"")["partitions"]] == [1]
        office.reassign({"orders-1": None})
        assert ZNODE not in office.znodes()


# ------------------------------------------------------------------ a controller takes over


@pytest.mark.spec("FO-11")
def test_whoever_takes_over_asks_the_znode_first_and_goes_on_with_the_rest() -> None:
    with Orders() as office:
        office.reassign({"orders-0": [3, 1, 2], "orders-1": [3, 2, 0]})
        office.ask_by_znode({"orders-0": [4, 1, 2]})
        office.start_chapter()
        office.run(partition_reassignment.resume(office.term))
        assert office.steps() == [
            "assignment 0:[4, 1, 2, 0]+[4]-[0] 1:[3, 2, 0, 1]+[3]-[1]",
            "state 0 0@2 [0, 1, 2]",
            "state 1 1@2 [1, 2, 0]",
        ]


# ------------------------------------------------------------------ together with others


@pytest.mark.spec("TD-1", "TD-12")
def test_a_move_ends_where_the_deletion_of_its_topic_begins() -> None:
    with Orders({"orders": {0: [0, 1, 2]}, "payments": {0: [0, 1]}}) as office:
        office.reassign({"orders-0": [3, 1, 2]})
        office.lose(2)
        office.write_znode("/admin/delete_topics/orders", b"")
        office.run(topic_deletion.process_topic_deletion(office.term))
        context = office.term.context
        assert context.topics_with_deletion_started == {"orders"}
        office.start_chapter()
        office.sync("orders-0", 2, 3, 1)
        office.run(partition_reassignment.resume_for_brokers(office.term, ids(3)))
        assert [step for step in office.steps() if step.startswith("assignment")] == []
        assert office.list_moves() == {}
        # In Kafka the marker of another topic would find the move still going on, and "orders" would wait for it.
        context.topics_ineligible_for_deletion.clear()
        office.write_znode("/admin/delete_topics/payments", b"")
        office.run(topic_deletion.process_topic_deletion(office.term))
        assert "payments" in context.topics_with_deletion_started
        assert context.partitions_being_reassigned == set()
