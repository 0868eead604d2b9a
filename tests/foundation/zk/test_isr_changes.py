"""ISR changes that leaders write to ZooKeeper themselves, as before AlterPartition existed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.contracts.subject import Ensemble, contract
from tests.foundation.zk.store import Store, controller, ids, led_by, must, partitions
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.zk.admin_znodes import IsrChangeNotificationZNode
from understudy.foundation.zk.client import MAX_REQUEST_BYTES, SetData
from understudy.foundation.zk.isr_changes import PARTITIONS_PER_NOTIFICATION
from understudy.foundation.zk.znodes import TopicPartitionStateZNode

T0 = TopicPartition("t", 0)
PATH = TopicPartitionStateZNode.path(T0)
SHRUNK = LeaderAndIsr(ids(1)[0], 4, ids(1))


async def led_partition(ensemble: Ensemble) -> Store:
    """t-0 is led by broker 1 at leader epoch 4, as the controller of epoch 1 decided."""
    opened, epoch_zk_version = await controller(ensemble)
    assert await opened.zk.topics.create("t", None, {}) is None
    state = replace(led_by(1, leader_epoch=4), isr=ids(1, 2))
    await opened.zk.states.create({T0: state}, 1, epoch_zk_version)
    return opened


@pytest.mark.spec("IS-16")
@contract
async def test_an_isr_is_written_over_the_version_that_the_leader_read(ensemble: Ensemble) -> None:
    opened = await led_partition(ensemble)
    assert await opened.zk.isr_changes.update(T0, SHRUNK, 1) == 1
    assert await opened.zk.isr_changes.update(T0, replace(SHRUNK, isr=ids(1, 2), partition_epoch=1), 1) == 2
    assert await opened.zk.isr_changes.update(T0, replace(SHRUNK, partition_epoch=1), 1) is None
    node = must(await opened.raw.get(PATH))
    assert node.data == b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'


@pytest.mark.spec("IS-16")
@contract
async def test_an_isr_write_whose_answer_was_lost_is_no_conflict(ensemble: Ensemble) -> None:
    opened = await led_partition(ensemble)
    opened.below.lose_answers = 1
    assert await opened.zk.isr_changes.update(T0, SHRUNK, 1) == 1
    assert await opened.zk.isr_changes.update(T0, SHRUNK, 1) == 1, (
        "nor is the same once more, in the next session perhaps"
    )


@pytest.mark.spec("IS-16")
@contract
async def test_a_missing_or_malformed_partition_state_is_a_conflict(ensemble: Ensemble) -> None:
    opened = await led_partition(ensemble)
    assert await opened.zk.isr_changes.update(TopicPartition("gone", 0), SHRUNK, 1) is None
    must(await opened.raw.write(SetData(PATH, b"spoilt", 0)))
    assert await opened.zk.isr_changes.update(T0, SHRUNK, 1) is None


@pytest.mark.spec("IS-17")
@contract
async def test_isr_changes_are_announced_in_one_persistent_znode(ensemble: Ensemble) -> None:
    opened = await led_partition(ensemble)
    await opened.zk.isr_changes.propagate([TopicPartition("t", 3), T0])
    await opened.zk.isr_changes.propagate([T0])
    listed = must(await opened.raw.children("/isr_change_notification")).names
    assert sorted(listed) == ["isr_change_0000000000", "isr_change_0000000001"]
    first = must(await opened.raw.get("/isr_change_notification/isr_change_0000000000"))
    assert first.data == b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"t","partition":3}]}'
    assert first.stat.ephemeral_owner == 0
    assert await opened.zk.isr_changes.read() == {
        "isr_change_0000000000": (T0, TopicPartition("t", 3)),
        "isr_change_0000000001": (T0,),
    }


@pytest.mark.spec("IS-17")
@contract
async def test_many_isr_changes_are_announced_in_several_znodes(ensemble: Ensemble) -> None:
    opened = await led_partition(ensemble)
    many = partitions(PARTITIONS_PER_NOTIFICATION + 1, "n" * 249)
    await opened.zk.isr_changes.propagate(many)
    announced = await opened.zk.isr_changes.read()
    assert [len(found) for _, found in sorted(announced.items())] == [PARTITIONS_PER_NOTIFICATION, 1]
    assert len(IsrChangeNotificationZNode.encode(many[:-1])) < MAX_REQUEST_BYTES
