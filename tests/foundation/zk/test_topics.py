"""Topic znodes are rewritten without losing what another client has written meanwhile."""

from __future__ import annotations

import pytest

from tests.contracts.subject import Ensemble, contract
from tests.foundation.zk.store import Store, controller, ids, nothing, store
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.zk.client import Create, Failure, SetData
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, TopicAssignment, ZooKeeperFailure
from understudy.foundation.zk.transactions import MAX_ROUNDS
from understudy.foundation.zk.znodes import MalformedZNode, TopicZNode

TOPIC_ID = TopicId("GKx8qQpIQTi1jsQC9Pe1UQ")
ONE, TWO = ReplicaAssignment(ids(1)), ReplicaAssignment(ids(2))
MOVING = ReplicaAssignment(ids(2, 1), ids(2), ids(1))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def written(zk: KafkaZkClient) -> dict[TopicPartition, ReplicaAssignment]:
    return (await zk.topics.assignments(["t"]))["t"].partitions


def add_a_partition_before_transactions(opened: Store, *, times: int = 1) -> None:
    """Have another client rewrite `t` with partition 1 just before each of the next transactions."""
    left = times

    async def add_a_partition() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            await opened.raw.write(SetData("/brokers/topics/t", TopicZNode.encode(TOPIC_ID, {0: ONE, 1: ONE})))

    opened.below.before_multi = add_a_partition


@pytest.mark.spec("BUG-18")
@contract
async def test_partitions_added_meanwhile_are_kept(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    add_a_partition_before_transactions(opened)
    assert await opened.zk.topics.update_assignments({"t": TopicAssignment(TOPIC_ID, {T0: MOVING})}, version) == {}
    assert await written(opened.zk) == {T0: MOVING, T1: ONE}
    assert await opened.zk.topics.overwrite_assignments({"t": TopicAssignment(TOPIC_ID, {T0: TWO})}, version) == {}
    assert await written(opened.zk) == {T0: TWO}


@contract
async def test_a_malformed_topic_is_overwritten(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.raw.write(Create("/brokers/topics/t", b"{"))
    both = {name: TopicAssignment(TOPIC_ID, {TopicPartition(name, 0): ONE}) for name in ("t", "gone")}
    assert await opened.zk.topics.update_assignments(both, version) == {"gone": Failure.NO_NODE}
    assert await written(opened.zk) == {T0: ONE}
    await opened.raw.write(SetData("/brokers/topics/t", b"{"))
    with pytest.raises(MalformedZNode):
        await opened.zk.topics.set_ids({"t": TOPIC_ID}, version)


@pytest.mark.spec("D14")
@contract
async def test_a_too_large_topic_is_refused_and_others_are_written(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    for name in ("t", "u"):
        await opened.zk.topics.create(name, TOPIC_ID, {0: ONE})
    huge = {TopicPartition("u", number): ReplicaAssignment(ids(*range(30))) for number in range(12_000)}
    wanted = {"u": TopicAssignment(TOPIC_ID, huge), "t": TopicAssignment(TOPIC_ID, {T0: MOVING})}
    assert await opened.zk.topics.update_assignments(wanted, version) == {"u": Failure.TOO_LARGE}
    assert await written(opened.zk) == {T0: MOVING}


@contract
async def test_a_topic_that_keeps_changing_fails_after_a_number_of_rounds(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    add_a_partition_before_transactions(opened, times=1_000)
    wanted = {"t": TopicAssignment(TOPIC_ID, {T0: MOVING})}
    assert await opened.zk.topics.update_assignments(wanted, version) == {"t": Failure.BAD_VERSION}
    with pytest.raises(ZooKeeperFailure, match="/brokers/topics/t: BadVersion"):
        await opened.zk.topics.set_ids({"t": TOPIC_ID}, version)
    assert len([record for record in opened.records("ZkWrite") if record["purpose"] == "topic"]) >= MAX_ROUNDS


@pytest.mark.spec("TP-2", "BUG-18")
@contract
async def test_partitions_are_added_only_to_the_assignment_that_was_read(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})
    read = await written(opened.zk)
    grown = {**read, T1: TWO}
    await opened.raw.write(SetData("/brokers/topics/t", TopicZNode.encode(TOPIC_ID, {0: MOVING})))
    assert not await opened.zk.topics.add_partitions("t", TOPIC_ID, grown, over=read)
    assert await written(opened.zk) == {T0: MOVING}
    assert await opened.zk.topics.add_partitions("t", TOPIC_ID, {T0: MOVING, T1: TWO}, over={T0: MOVING})
    assert await written(opened.zk) == {T0: MOVING, T1: TWO}


@pytest.mark.spec("TP-2", "BUG-18")
@contract
async def test_partitions_are_not_added_if_the_topic_changes_meanwhile(ensemble: Ensemble) -> None:
    opened = await store(ensemble)
    await opened.zk.topics.create("t", TOPIC_ID, {0: ONE})

    async def begin_a_reassignment() -> None:
        opened.below.before_write = nothing
        await opened.raw.write(SetData("/brokers/topics/t", TopicZNode.encode(TOPIC_ID, {0: MOVING})))

    opened.below.before_write = begin_a_reassignment
    assert not await opened.zk.topics.add_partitions("t", TOPIC_ID, {T0: ONE, T1: TWO}, over={T0: ONE})
    assert await written(opened.zk) == {T0: MOVING}
