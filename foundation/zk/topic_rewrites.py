"""A topic's znode is written over as a whole: with an id, with other assignments, with more partitions.

Mirrors `setTopicIds`, `setTopicAssignmentRaw` and `AdminZkClient.writeTopicPartitionAssignment`. Kafka writes over
whatever is there, so that of a move that begins and of partitions that are added at the same moment one is forgotten
(BUG-18); here a writer keeps what it has not known of, and writes only over what it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import TopicId, TopicPartition
from foundation.zk.client import MATCH_ANY_VERSION, Failure, SetData
from foundation.zk.transactions import MAX_ROUNDS, Fenced, Transactions, tolerate
from foundation.zk.znodes import MalformedZNode, TopicAssignment, TopicZNode

Change: TypeAlias = Callable[[str, bytes], TopicAssignment]
"""From a topic and the data of its znode to what it shall hold."""


class TopicRewrites:
    """Part of `KafkaZkClient`, and raises what it does."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    async def set_ids(self, topic_ids: Mapping[str, TopicId], fence: Fenced) -> None:
        """A topic that has vanished is skipped."""

        def named(topic: str, data: bytes) -> TopicAssignment:
            return TopicZNode.decode(topic, data)._replace(topic_id=topic_ids[topic])

        failed = await self._rewrite(list(topic_ids), named, "topic-id", fence)
        for topic, failure in failed.items():
            tolerate(failure, TopicZNode.path(topic), Failure.NO_NODE)

    async def update(self, assignments: Mapping[str, TopicAssignment], fence: Fenced) -> dict[str, Failure]:
        """Put these over what is there; other partitions of these topics stay. Returns what could not be written, and
        why."""

        def updated(topic: str, data: bytes) -> TopicAssignment:
            wanted = assignments[topic]
            return TopicAssignment(wanted.topic_id, _partitions(topic, data) | wanted.partitions)

        return await self._rewrite(list(assignments), updated, "topic", fence)

    async def overwrite(self, assignments: Mapping[str, TopicAssignment], fence: Fenced) -> dict[str, Failure]:
        """These and no other partitions, whatever is there. Returns what could not be written, and why."""
        writes = [_write(topic, wanted, MATCH_ANY_VERSION) for topic, wanted in assignments.items()]
        results = await self._transactions.fenced(writes, "topic", fence)
        return {
            topic: result for topic, result in zip(assignments, results, strict=True) if isinstance(result, Failure)
        }

    async def add_partitions(
        self,
        topic: str,
        topic_id: TopicId | None,
        grown: Mapping[TopicPartition, ReplicaAssignment],
        over: Mapping[TopicPartition, ReplicaAssignment] | None,
    ) -> bool:
        """Unfenced. False where the znode does not hold `over` any more; None is written over anything."""
        version = MATCH_ANY_VERSION
        if over is not None:
            node = await self._transactions.must_get(TopicZNode.path(topic))
            if TopicZNode.decode(topic, node.data).partitions != over:
                return False
            version = node.stat.version
        write = _write(topic, TopicAssignment(topic_id, dict(grown)), version)
        result = await self._transactions.write(write, "topic")
        tolerate(result, write.path, *(() if over is None else (Failure.BAD_VERSION,)))
        return result is not Failure.BAD_VERSION

    async def _rewrite(self, topics: Sequence[str], change: Change, purpose: str, fence: Fenced) -> dict[str, Failure]:
        """Read, change, and write at the version that was read; what has changed meanwhile once more."""
        failed: dict[str, Failure] = {}
        remaining = list(topics)
        for _ in range(MAX_ROUNDS):
            writes: dict[str, SetData] = {}
            nodes = await self._transactions.get_many([TopicZNode.path(topic) for topic in remaining])
            for topic, node in zip(remaining, nodes, strict=True):
                if isinstance(node, Failure):
                    failed[topic] = node
                else:
                    writes[topic] = _write(topic, change(topic, node.data), node.stat.version)
            results = await self._transactions.fenced(list(writes.values()), purpose, fence)
            refused = {t: result for t, result in zip(writes, results, strict=True) if isinstance(result, Failure)}
            remaining = [topic for topic, failure in refused.items() if failure is Failure.BAD_VERSION]
            failed |= {topic: failure for topic, failure in refused.items() if failure is not Failure.BAD_VERSION}
            if not remaining:
                break
        return failed | dict.fromkeys(remaining, Failure.BAD_VERSION)


def _partitions(topic: str, data: bytes) -> dict[TopicPartition, ReplicaAssignment]:
    """None where the data cannot be read: in Kafka, too, it is written over."""
    try:
        return TopicZNode.decode(topic, data).partitions
    except MalformedZNode:
        return {}


def _write(topic: str, wanted: TopicAssignment, version: int) -> SetData:
    partitions = {partition.partition: replicas for partition, replicas in wanted.partitions.items()}
    return SetData(TopicZNode.path(topic), TopicZNode.encode(wanted.topic_id, partitions), version)
