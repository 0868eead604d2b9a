"""Topics that appear in a way that no broker would make them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controller.topic_changes import process_topic_change
from foundation.cluster.identifiers import TopicId
from foundation.zk.client import Create, Failure, SetData
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
        set_topic_ids = office.term.zk.set_topic_ids

        async def failing(topic_ids: Mapping[str, TopicId], epoch_zk_version: int) -> None:
            office.term.zk.set_topic_ids = set_topic_ids  # type: ignore[method-assign]
            raise ZooKeeperFailure(Failure.BAD_VERSION, "/brokers/topics/orders")

        office.term.zk.set_topic_ids = failing  # type: ignore[method-assign]
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
