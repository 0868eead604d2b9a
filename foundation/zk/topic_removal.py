"""Deletes topics' znodes, children first and many in one transaction. Mirrors `KafkaZkClient.deleteTopicZNode`.

Kafka lists the whole tree and deletes each znode in a transaction of its own. Here the controller passes the partitions
it knows; only if a znode has other children is its tree listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Delete, Failure
from understudy.foundation.zk.transactions import MAX_ROUNDS, Fenced, Transactions, ZooKeeperFailure, tolerate
from understudy.foundation.zk.znodes import (
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicZNode,
)

PURPOSE = "topic-deletion"


async def delete_topics(
    transactions: Transactions, partitions_by_topic: Mapping[str, Iterable[TopicPartition]], fence: Fenced
) -> None:
    """Delete `/brokers/topics/T` of each topic with everything below; absent znodes count as deleted.

    Raises:
        ControllerMoved: as all fenced writes.
        ZooKeeperFailure: NOT_EMPTY if new children keep appearing.
    """
    known = [path for topic, partitions in partitions_by_topic.items() for path in _known_paths(topic, partitions)]
    remaining = await _delete(transactions, known, fence)
    for _ in range(MAX_ROUNDS):
        if not remaining:
            return
        listed: list[str] = []
        for path in _outermost(remaining):
            listed += await _listed(transactions, path)
        remaining = await _delete(transactions, listed, fence)
    raise ZooKeeperFailure(Failure.NOT_EMPTY, remaining[0])


def _known_paths(topic: str, partitions: Iterable[TopicPartition]) -> Iterable[str]:
    for partition in partitions:
        yield TopicPartitionStateZNode.path(partition)
        yield TopicPartitionZNode.path(partition)
    yield TopicPartitionsZNode.path(topic)
    yield TopicZNode.path(topic)


async def _delete(transactions: Transactions, paths: list[str], fence: Fenced) -> list[str]:
    """Delete `paths`; return those that still have children."""
    results = await transactions.fenced([Delete(path) for path in paths], PURPOSE, fence)
    for path, result in zip(paths, results, strict=True):
        tolerate(result, path, Failure.NO_NODE, Failure.NOT_EMPTY)
    return [path for path, result in zip(paths, results, strict=True) if result is Failure.NOT_EMPTY]


def _outermost(paths: Iterable[str]) -> list[str]:
    """Return `paths` without those below another of them, whose listing includes them."""
    kept: list[str] = []
    for path in sorted(paths):
        if not kept or not path.startswith(f"{kept[-1]}/"):
            kept.append(path)
    return kept


async def _listed(transactions: Transactions, path: str) -> list[str]:
    """List `path` and all znodes below it, children first; one deleted meanwhile counts as having none."""
    children = await transactions.children(path)
    below: list[str] = []
    for name in children.names if children else ():
        below += await _listed(transactions, f"{path}/{name}")
    return [*below, path]
