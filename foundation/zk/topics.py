"""Reads and writes topics, `/brokers/topics/T`: their ids and assignments.

A topic's znode is always written as a whole. Kafka writes it at any version, so that one of two changes at the same
time is lost, the start of a reassignment or the addition of partitions; here a writer keeps partitions it did not know,
and writes at the version it has read (BUG-18). Mirrors `setTopicIds`, `setTopicAssignmentRaw` and
`AdminZkClient.writeTopicPartitionAssignment`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import structlog

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.zk.client import MATCH_ANY_VERSION, Failure, SetData
from understudy.foundation.zk.topic_removal import delete_topics
from understudy.foundation.zk.transactions import MAX_ROUNDS, Fenced, Part, tolerate
from understudy.foundation.zk.znodes import (
    MalformedZNode,
    TopicAssignment,
    TopicPartitionsZNode,
    TopicsZNode,
    TopicZNode,
)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)

Change: TypeAlias = Callable[[str, bytes], TopicAssignment]
"""Returns what a topic's znode shall hold, given the topic and the present data."""


class Topics(Part):
    """Reads and writes topics. The part `topics` of `KafkaZkClient`, and raises what it does."""

    async def names(self, *, watch: bool = False) -> tuple[str, ...]:
        """List the names of all topics; `watch` arms the child watch of `/brokers/topics`."""
        listed = await self._transactions.children(TopicsZNode.path, watch=watch)
        return listed.names if listed else ()

    async def exists(self, topic: str) -> bool:
        """Whether the topic has a znode."""
        return await self._transactions.exists(TopicZNode.path(topic)) is not None

    async def assignments(self, topics: Sequence[str], *, watch: bool = False) -> dict[str, TopicAssignment]:
        """Read the assignments and ids of `topics`. Topics that do not exist, or cannot be decoded, are left out.

        Kafka reads a malformed znode as a topic without partitions, or ends the whole failover.
        """
        nodes = await self._transactions.get_many([TopicZNode.path(topic) for topic in topics], watch=watch)
        assignments = {}
        for topic, node in zip(topics, nodes, strict=True):
            if not isinstance(node, Failure):
                try:
                    assignments[topic] = TopicZNode.decode(topic, node.data)
                except MalformedZNode as error:
                    _log.error("topic left out", topic=topic, why=str(error))
        return assignments

    async def oldest(self, topics: Sequence[str]) -> str:
        """Return the topic of `topics`, at least one, whose znode was created first; absent ones count as newest."""
        nodes = await self._transactions.get_many([TopicZNode.path(topic) for topic in topics])
        born = {
            topic: node.stat.czxid for topic, node in zip(topics, nodes, strict=True) if not isinstance(node, Failure)
        }
        return min(born or topics, key=lambda topic: born.get(topic, 0))

    async def partition_znodes(self, topic: str) -> tuple[TopicPartition, ...]:
        """List the partitions of `topic` with a znode below `/partitions`, whether in its assignment or not."""
        listed = await self._transactions.children(TopicPartitionsZNode.path(topic))
        names = listed.names if listed else ()
        return tuple(TopicPartition(topic, int(name)) for name in names if name.isdecimal())

    async def create(
        self, topic: str, topic_id: TopicId | None, assignment: Mapping[int, ReplicaAssignment]
    ) -> Failure | None:
        """Create a topic's znode, unfenced (TC-6). NODE_EXISTS if it exists, TOO_LARGE if it exceeds a znode."""
        return await self._transactions.create_recursive(
            TopicZNode.path(topic), TopicZNode.encode(topic_id, assignment), "topic"
        )

    async def delete(self, partitions_by_topic: Mapping[str, Iterable[TopicPartition]], epoch_zk_version: int) -> None:
        """Delete `/brokers/topics/T` of each topic with everything below, children first, fenced.

        Args:
            partitions_by_topic: the partitions known to be below; others are found.

        Raises:
            ControllerMoved: as all fenced writes.
            ZooKeeperFailure: NOT_EMPTY if new children keep appearing.
        """
        await delete_topics(self._transactions, partitions_by_topic, Fenced(epoch_zk_version))

    async def set_ids(self, topic_ids: Mapping[str, TopicId], epoch_zk_version: int) -> None:
        """Rewrite the znodes as version 3 with these ids, fenced; an absent topic is skipped (FO-5c)."""

        def named(topic: str, data: bytes) -> TopicAssignment:
            return TopicZNode.decode(topic, data)._replace(topic_id=topic_ids[topic])

        failed = await self._rewrite(list(topic_ids), named, "topic-id", Fenced(epoch_zk_version))
        for topic, failure in failed.items():
            tolerate(failure, TopicZNode.path(topic), Failure.NO_NODE)

    async def update_assignments(
        self, assignments: Mapping[str, TopicAssignment], epoch_zk_version: int
    ) -> dict[str, Failure]:
        """Write these partitions over what the znodes hold, fenced; other partitions of the topics stay.

        Returns:
            The topics that could not be written: NO_NODE if there is no such topic, TOO_LARGE if the partitions exceed
            a znode.
        """

        def updated(topic: str, data: bytes) -> TopicAssignment:
            wanted = assignments[topic]
            return TopicAssignment(wanted.topic_id, _partitions(topic, data) | wanted.partitions)

        return await self._rewrite(list(assignments), updated, "topic", Fenced(epoch_zk_version))

    async def overwrite_assignments(
        self, assignments: Mapping[str, TopicAssignment], epoch_zk_version: int
    ) -> dict[str, Failure]:
        """Write these partitions and drop all others of the topics, fenced. Returns as `update_assignments`."""
        writes = [_write(topic, wanted, MATCH_ANY_VERSION) for topic, wanted in assignments.items()]
        results = await self._transactions.fenced(writes, "topic", Fenced(epoch_zk_version))
        return {
            topic: result for topic, result in zip(assignments, results, strict=True) if isinstance(result, Failure)
        }

    async def add_partitions(
        self,
        topic: str,
        topic_id: TopicId | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
        *,
        over: Mapping[TopicPartition, ReplicaAssignment] | None = None,
    ) -> bool:
        """Rewrite the whole znode with more partitions, unfenced (TP-2).

        Args:
            over: the assignment that the znode must hold; None is written over anything.

        Returns:
            False if the znode does not hold `over` any more.
        """
        version = MATCH_ANY_VERSION
        if over is not None:
            node = await self._transactions.must_get(TopicZNode.path(topic))
            if TopicZNode.decode(topic, node.data).partitions != over:
                return False
            version = node.stat.version
        write = _write(topic, TopicAssignment(topic_id, dict(assignment)), version)
        result = await self._transactions.write(write, "topic")
        tolerate(result, write.path, *(() if over is None else (Failure.BAD_VERSION,)))
        return result is not Failure.BAD_VERSION

    async def _rewrite(self, topics: Sequence[str], change: Change, purpose: str, fence: Fenced) -> dict[str, Failure]:
        """Read, change, and write at the version that was read; repeat for topics that have changed meanwhile."""
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
    """Return the partitions in a topic's data; none if it cannot be decoded and, as in Kafka, is written over."""
    try:
        return TopicZNode.decode(topic, data).partitions
    except MalformedZNode:
        return {}


def _write(topic: str, wanted: TopicAssignment, version: int) -> SetData:
    partitions = {partition.partition: replicas for partition, replicas in wanted.partitions.items()}
    return SetData(TopicZNode.path(topic), TopicZNode.encode(wanted.topic_id, partitions), version)
