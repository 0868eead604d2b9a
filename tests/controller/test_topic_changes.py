"""Topics that appear in a way that no broker would make them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.topic_changes import process_topic_change
from foundation.cluster.identifiers import TopicId
from foundation.zk.client import Create, Delete, Failure, SetData
from foundation.zk.kafka_zk_client import ZooKeeperFailure
from foundation.zk.znodes import TopicZNode
from tests.controller.office import Office
from tests.controller.stage import Stage
from tests.controller.values import led, replicas, tp

MADE_BY_HAND = b'{"version":1,"partitions":{"0":[1,2]}}'


@pytest.mark.spec("TC-11", "FO-5")
def test_topics_that_could_not_be_given_an_id_are_new_the_next_time() -> None:
    with Office() as office:
        office.write_znode("/brokers/topics/orders", MADE_BY_HAND)
        set_topic_ids = office.term.zk.topics.set_ids

        async def failing(topic_ids: Mapping[str, TopicId], epoch_zk_version: int) -> None:
            office.term.zk.topics.set_ids = set_topic_ids  # type: ignore[method-assign]
            raise ZooKeeperFailure(Failure.BAD_VERSION, "/brokers/topics/orders")

        office.term.zk.topics.set_ids = failing  # type: ignore[method-assign]
        with pytest.raises(ZooKeeperFailure):
            office.run(process_topic_change(office.term))
        office.run(process_topic_change(office.term))
        assert office.known("orders-0") == led(1, (1, 2), by=1)
        written = TopicZNode.decode("orders", office.znodes()["/brokers/topics/orders"] or b"")
        assert written == (office.term.context.topic_ids["orders"], {tp("orders-0"): replicas(1, 2)})


@pytest.mark.spec("TC-11", "TC-12")
def test_a_topic_that_somebody_repairs_is_created() -> None:
    with Stage() as stage:
        stage.start()
        stage.operator.run(stage.operator.client.write(Create("/brokers/topics/orders", b"{")))
        stage.settle()
        assert "/brokers/topics/orders/partitions" not in stage.znodes()
        stage.operator.run(stage.operator.client.write(SetData("/brokers/topics/orders", MADE_BY_HAND)))
        stage.settle()
        assert stage.state("orders", 0) == led(1, (1, 2), by=1)


@pytest.mark.spec("TD-10", "RSM-10")
def test_a_broker_named_twice_has_one_replica_and_loses_it_once() -> None:
    with Stage() as stage:
        stage.start()
        stage.operator.run(
            stage.operator.client.write(Create("/brokers/topics/orders", MADE_BY_HAND.replace(b"1,2", b"2,2")))
        )
        stage.settle()
        stage.write_znode("/admin/delete_topics/orders", b"")
        stage.settle()
        assert "/brokers/topics/orders" not in stage.znodes()
        assert stage.member(0).controller.epoch == 1, "it has cost nobody the role"


@pytest.mark.spec("TC-12")
def test_a_partition_that_was_made_without_replicas_is_created_when_it_is_given_some() -> None:
    with Stage() as stage:
        stage.start()
        without = MADE_BY_HAND.replace(b"[1,2]", b"[]")
        stage.operator.run(stage.operator.client.write(Create("/brokers/topics/orders", without)))
        stage.settle()
        assert stage.member(0).controller.is_active
        stage.operator.run(stage.operator.client.write(SetData("/brokers/topics/orders", MADE_BY_HAND)))
        stage.settle()
        assert stage.state("orders", 0) == led(1, (1, 2), by=1)


@pytest.mark.spec("TC-11", "FO-5", "TC-12")
def test_a_topic_with_the_id_of_another_harms_neither_it_nor_the_role() -> None:
    with Stage(standing=(0, 1), brokers=(2,)) as stage:
        stage.start()
        topic_id = stage.create_topic("orders", {0: [1, 2]})
        stage.create_topic("copy-of-orders", {0: [2]}, topic_id=topic_id)
        stage.create_topic("payments", {0: [2]})
        assert stage.member(0).controller.epoch == 1
        assert stage.state("payments", 0) == led(2, (2,), by=1)
        stage.member(0).crash()
        stage.settle(2_000)
        successor = stage.member(1).controller
        assert successor.is_active
        assert successor.topic_name(topic_id) == "orders", "the older one, though the other comes first by name"
        assert set(successor.assignments) == {tp("orders-0"), tp("payments-0")}
        # Somebody takes the id away again.
        stage.operator.run(stage.operator.client.write(SetData("/brokers/topics/copy-of-orders", MADE_BY_HAND)))
        stage.settle()
        assert stage.state("copy-of-orders", 0) == led(1, (1, 2), by=2)


@pytest.mark.spec("TC-11")
def test_a_topic_renamed_by_hand_keeps_its_id() -> None:
    with Office({"orders": {0: [1, 2]}}) as office:
        topic_id = office.term.context.topic_ids["orders"]
        office.operator.run(office.operator.client.write(Delete("/brokers/topics/orders")))
        office.create_topic("invoices", {0: [1, 2]}, topic_id=topic_id)
        office.run(process_topic_change(office.term))
        assert office.term.context.topic_names == {topic_id: "invoices"}
        assert office.known("invoices-0") == led(1, (1, 2), by=1)


def test_the_owner_of_an_id_goes_and_its_other_bearer_inherits_it() -> None:
    with Stage(standing=(0, 1), brokers=(2,)) as stage:
        stage.start()
        topic_id = stage.create_topic("orders", {0: [2]})
        stage.create_topic("copy-of-orders", {0: [2]}, topic_id=topic_id)
        stage.write_znode("/admin/delete_topics/orders", b"")
        stage.settle()
        assert stage.member(0).controller.topic_name(topic_id) == "copy-of-orders"
        assert stage.state("copy-of-orders", 0) == led(2, (2,), by=1)
