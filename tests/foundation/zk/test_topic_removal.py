"""The znodes of a deleted topic are removed."""

from __future__ import annotations

import pytest

from tests.contracts.subject import Ensemble, contract
from tests.foundation.zk.store import Store, controller, ids, led_by, must, partitions
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Create, Failure, SetData
from understudy.foundation.zk.kafka_zk_client import ControllerMoved

ONE = ReplicaAssignment(ids(1), (), ())


async def with_topic(ensemble: Ensemble) -> tuple[Store, int]:
    """The topic `t` has two partitions with states, a config and a deletion marker."""
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", None, dict.fromkeys(range(2), ONE))
    await opened.zk.states.create({partition: led_by(1) for partition in partitions(2)}, 1, version)
    await opened.raw.write(Create("/config/topics/t", b"{}"))
    await opened.raw.write(Create("/admin/delete_topics/t"))
    return opened, version


@pytest.mark.spec("TD-10", "D15")
@contract
async def test_a_topic_and_its_known_partitions_are_removed_in_one_transaction(ensemble: Ensemble) -> None:
    opened, version = await with_topic(ensemble)
    opened.below.sent.clear()
    await opened.zk.topics.delete({"t": partitions(2)}, version)
    assert await opened.raw.get("/brokers/topics/t") is Failure.NO_NODE
    (transaction,) = opened.below.sent
    assert [op.path for op in transaction] == [
        "/controller_epoch",
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/1/state",
        "/brokers/topics/t/partitions/1",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t",
    ]


@pytest.mark.spec("TD-10")
@contract
async def test_unexpected_znodes_of_a_topic_are_removed_and_missing_ones_are_no_error(ensemble: Ensemble) -> None:
    opened, version = await with_topic(ensemble)
    for path in ("partitions/0/state/odd", "partitions/7", "partitions/7/state", "notes", "notes/deep"):
        await opened.raw.write(Create(f"/brokers/topics/t/{path}"))
    await opened.zk.topics.delete({"t": [*partitions(2), TopicPartition("t", 5)], "never": ()}, version)
    assert await opened.raw.get("/brokers/topics/t") is Failure.NO_NODE
    assert must(await opened.raw.children("/brokers/topics")).names == ()


@pytest.mark.spec("TD-10", "R-5")
@contract
async def test_a_topic_is_removed_although_an_answer_is_lost(ensemble: Ensemble) -> None:
    opened, version = await with_topic(ensemble)
    opened.below.lose_answers = 1
    await opened.zk.topics.delete({"t": partitions(2)}, version)
    assert await opened.raw.get("/brokers/topics/t") is Failure.NO_NODE


@pytest.mark.spec("TD-10", "EL-13")
@contract
async def test_a_deposed_controller_removes_no_topic_and_no_config(ensemble: Ensemble) -> None:
    opened, version = await with_topic(ensemble)
    await opened.raw.write(SetData("/controller_epoch", b"9"))
    with pytest.raises(ControllerMoved):
        await opened.zk.topics.delete({"t": partitions(2)}, version)
    with pytest.raises(ControllerMoved):
        await opened.zk.configs.delete_of_topics(["t"], version)
    assert len(await opened.zk.topics.partition_znodes("t")) == 2
    assert not isinstance(await opened.raw.get("/config/topics/t"), Failure)


@pytest.mark.spec("TD-10")
@contract
async def test_topic_configs_are_removed_where_they_exist(ensemble: Ensemble) -> None:
    opened, version = await with_topic(ensemble)
    await opened.zk.configs.delete_of_topics(["by-hand", "t"], version)
    assert must(await opened.raw.children("/config/topics")).names == ()


@pytest.mark.spec("TX-1")
@contract
async def test_a_topic_is_marked_for_deletion_once(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    assert await opened.zk.topic_deletions.mark("t")
    assert not await opened.zk.topic_deletions.mark("t")
    assert await opened.zk.topic_deletions.topics() == ("t",)


@pytest.mark.spec("TC-12")
@contract
async def test_the_partitions_of_a_topic_are_those_with_znodes_of_their_own(ensemble: Ensemble) -> None:
    opened, _ = await with_topic(ensemble)
    await opened.raw.write(Create("/brokers/topics/t/partitions/odd"))
    assert await opened.zk.topics.partition_znodes("t") == tuple(partitions(2))
    assert await opened.zk.topics.partition_znodes("never") == ()
