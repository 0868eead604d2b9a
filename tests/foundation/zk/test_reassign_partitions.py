"""`/admin/reassign_partitions` is read, rewritten and deleted."""

from __future__ import annotations

import json

import pytest

from tests.contracts.subject import Ensemble, contract
from tests.foundation.zk.store import controller, ids
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Create, Failure, SetData, WatchKind

PATH = "/admin/reassign_partitions"
BADLY_WRITTEN = (b"", b"{", b'{"partitions":7}', b'{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}')
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.spec("RA-6")
@contract
async def test_the_reassignment_znode_is_read_and_watched_while_absent(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    assert await opened.zk.reassignments.read(watch=True) is None
    await opened.raw.write(Create(PATH, b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[3,1]}]}'))
    await opened.session.wait_for_watch(PATH, WatchKind.CREATED)
    assert await opened.zk.reassignments.read(watch=True) == {T1: ids(3, 1)}


@pytest.mark.spec("RA-6")
@contract
async def test_a_malformed_reassignment_znode_holds_no_reassignment(ensemble: Ensemble) -> None:
    opened, _ = await controller(ensemble)
    await opened.raw.write(Create(PATH))
    for data in BADLY_WRITTEN:
        await opened.raw.write(SetData(PATH, data))
        assert await opened.zk.reassignments.read() == {}


@pytest.mark.spec("RA-14")
@contract
async def test_the_reassignment_znode_is_rewritten_created_again_and_deleted(ensemble: Ensemble) -> None:
    opened, version = await controller(ensemble)
    await opened.zk.reassignments.write({T1: ids(2), T0: ids(3, 1)}, version)
    node = await opened.raw.get(PATH)
    assert not isinstance(node, Failure)
    assert json.loads(node.data)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [3, 1]},
        {"topic": "t", "partition": 1, "replicas": [2]},
    ]
    await opened.raw.write(SetData(PATH, b"{"))
    await opened.zk.reassignments.write({T0: ids(3)}, version)
    assert await opened.zk.reassignments.read() == {T0: ids(3)}
    await opened.zk.reassignments.delete(version)
    await opened.zk.reassignments.delete(version)
    assert await opened.zk.reassignments.read() is None
