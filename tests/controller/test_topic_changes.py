"""Tests of topic znodes that no broker writes: edited by hand, incomplete, with duplicate ids."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.controller.harness import ControllerHarness, TermHarness
from tests.controller.values import led, replicas, tp
from understudy.controller.topic_changes import process_topic_change
from understudy.foundation.cluster.identifiers import TopicId
from understudy.foundation.zk.client import Create, Delete, Failure, SetData
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure
from understudy.foundation.zk.znodes import TopicZNode

MADE_BY_HAND = b'{"version":1,"partitions":{"0":[1,2]}}'


@pytest.mark.spec("TC-11", "FO-5")
def test_topics_whose_id_could_not_be_written_are_new_next_time() -> None:
    with TermHarness() as harness:
        harness.write_znode("/brokers/topics/orders", MADE_BY_HAND)
        set_topic_ids = harness.term.zk.topics.set_ids

        async def failing(topic_ids: Mapping[str, TopicId], epoch_zk_version: int) -> None:
            harness.term.zk.topics.set_ids = set_topic_ids  # type: ignore[method-assign]  # replaces the write
            raise ZooKeeperFailure(Failure.BAD_VERSION, "/brokers/topics/orders")

        harness.term.zk.topics.set_ids = failing  # type: ignore[method-assign]  # replaces the write
        with pytest.raises(ZooKeeperFailure):
            harness.run(process_topic_change(harness.term))
        harness.run(process_topic_change(harness.term))
        assert harness.known("orders-0") == led(1, (1, 2), by=1)
        written = TopicZNode.decode("orders", harness.znodes()["/brokers/topics/orders"] or b"")
        assert written == (harness.term.context.topic_ids["orders"], {tp("orders-0"): replicas(1, 2)})


@pytest.mark.spec("TC-11", "TC-12")
def test_repaired_topic_znode_is_created() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.operator.run(harness.operator.client.write(Create("/brokers/topics/orders", b"{")))
        harness.settle()
        assert "/brokers/topics/orders/partitions" not in harness.znodes()
        harness.operator.run(harness.operator.client.write(SetData("/brokers/topics/orders", MADE_BY_HAND)))
        harness.settle()
        assert harness.state("orders", 0) == led(1, (1, 2), by=1)


@pytest.mark.spec("TD-10", "RSM-10")
def test_broker_assigned_twice_has_one_replica() -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.operator.run(
            harness.operator.client.write(Create("/brokers/topics/orders", MADE_BY_HAND.replace(b"1,2", b"2,2")))
        )
        harness.settle()
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.settle()
        assert "/brokers/topics/orders" not in harness.znodes()
        assert harness.broker(0).controller.epoch == 1, "no controller has resigned"


@pytest.mark.spec("TC-12")
def test_partition_without_replicas_is_created_when_it_gets_some() -> None:
    with ControllerHarness() as harness:
        harness.start()
        without = MADE_BY_HAND.replace(b"[1,2]", b"[]")
        harness.operator.run(harness.operator.client.write(Create("/brokers/topics/orders", without)))
        harness.settle()
        assert harness.broker(0).controller.is_active
        harness.operator.run(harness.operator.client.write(SetData("/brokers/topics/orders", MADE_BY_HAND)))
        harness.settle()
        assert harness.state("orders", 0) == led(1, (1, 2), by=1)


@pytest.mark.spec("TC-11", "FO-5", "TC-12")
def test_topic_with_a_duplicate_id_is_left_out() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        topic_id = harness.create_topic("orders", {0: [1, 2]})
        harness.create_topic("copy-of-orders", {0: [2]}, topic_id=topic_id)
        harness.create_topic("payments", {0: [2]})
        assert harness.broker(0).controller.epoch == 1
        assert harness.state("payments", 0) == led(2, (2,), by=1)
        harness.broker(0).crash()
        harness.settle(2_000)
        successor = harness.broker(1).controller
        assert successor.is_active
        assert successor.topic_name(topic_id) == "orders", "the older one, though the other comes first by name"
        assert set(successor.assignments) == {tp("orders-0"), tp("payments-0")}
        # The id is removed by hand.
        harness.operator.run(harness.operator.client.write(SetData("/brokers/topics/copy-of-orders", MADE_BY_HAND)))
        harness.settle()
        assert harness.state("copy-of-orders", 0) == led(1, (1, 2), by=2)


@pytest.mark.spec("TC-11")
def test_topic_renamed_by_hand_keeps_its_id() -> None:
    with TermHarness({"orders": {0: [1, 2]}}) as harness:
        topic_id = harness.term.context.topic_ids["orders"]
        harness.operator.run(harness.operator.client.write(Delete("/brokers/topics/orders")))
        harness.create_topic("invoices", {0: [1, 2]}, topic_id=topic_id)
        harness.run(process_topic_change(harness.term))
        assert harness.term.context.topic_names == {topic_id: "invoices"}
        assert harness.known("invoices-0") == led(1, (1, 2), by=1)


def test_duplicate_id_belongs_to_the_other_topic_after_a_deletion() -> None:
    with ControllerHarness(electable=(0, 1), brokers=(2,)) as harness:
        harness.start()
        topic_id = harness.create_topic("orders", {0: [2]})
        harness.create_topic("copy-of-orders", {0: [2]}, topic_id=topic_id)
        harness.write_znode("/admin/delete_topics/orders", b"")
        harness.settle()
        assert harness.broker(0).controller.topic_name(topic_id) == "copy-of-orders"
        assert harness.state("copy-of-orders", 0) == led(2, (2,), by=1)
