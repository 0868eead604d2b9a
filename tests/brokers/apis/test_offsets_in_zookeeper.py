"""Tests of OffsetCommit and OffsetFetch version 0, which keep offsets in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from understudy.foundation.zk.consumer_offsets import is_path_component

ORDERS = "orders"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=3, brokers=1) as cluster:
        cluster.start()
        cluster.create_topic(ORDERS, assignment={0: [1], 1: [1]})
        cluster.settle()
        yield cluster


def commit(
    cluster: SimulatedCluster, offset: int, *, group: str = "old", metadata: str = "", partition: int = 0
) -> str:
    committed = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    asked = OffsetCommitRequest(
        group_id=group, topics=(OffsetCommitRequestTopic(name=ORDERS, partitions=(committed,)),)
    )
    answer = cluster.ask(cluster.admin.ask("broker-1", PORT, asked, version=0))
    assert isinstance(answer, OffsetCommitResponse)
    return Errors(answer.topics[0].partitions[0].error_code).name


def fetch(cluster: SimulatedCluster, *, group: str = "old") -> list[tuple[int, str]]:
    topics = (OffsetFetchRequestTopic(name=ORDERS, partition_indexes=(0, 1, 7)),)
    answer = cluster.ask(
        cluster.admin.ask("broker-1", PORT, OffsetFetchRequest(group_id=group, topics=topics), version=0)
    )
    assert isinstance(answer, OffsetFetchResponse)
    return [(each.committed_offset, Errors(each.error_code).name) for each in answer.topics[0].partitions]


def test_offsets_are_kept_in_zookeeper(cluster: SimulatedCluster) -> None:
    missing = (-1, "UNKNOWN_TOPIC_OR_PARTITION")
    assert fetch(cluster) == [missing, missing, missing]
    assert [commit(cluster, 5), commit(cluster, 6), commit(cluster, 1, partition=7)] == [
        "NONE",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert fetch(cluster) == [(6, "NONE"), missing, missing]
    node = cluster.zookeeper.tree.get("/consumers/old/offsets/orders/0")
    assert getattr(node, "data", None) == b"6"


def test_a_commit_that_cannot_be_kept_is_refused(cluster: SimulatedCluster) -> None:
    assert commit(cluster, 5, group="a/b") == "INVALID_GROUP_ID"
    assert commit(cluster, 5, metadata="x" * 4_097) == "OFFSET_METADATA_TOO_LARGE"
    assert {error for _, error in fetch(cluster, group="a/b")} == {"UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.parametrize(("group", "valid"), [("old", True), ("", False), (".", False), ("..", False), ("a\0", False)])
def test_a_group_id_may_be_the_name_of_a_znode(group: str, valid: bool) -> None:
    assert is_path_component(group) is valid
