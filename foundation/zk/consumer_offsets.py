"""Reads and writes `/consumers/G/offsets/T/P`: offsets that OffsetCommit and OffsetFetch version 0 keep in ZooKeeper.

Only consumers from before Kafka 0.9 use them. Mirrors `setOrCreateConsumerOffset` and `getConsumerOffset`.
"""

from __future__ import annotations

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import MATCH_ANY_VERSION, Failure, SetData
from understudy.foundation.zk.transactions import Part, tolerate
from understudy.foundation.zk.znodes import MalformedZNode


def path_of(group_id: str, partition: TopicPartition) -> str:
    return f"/consumers/{group_id}/offsets/{partition.topic}/{partition.partition}"


def is_path_component(group_id: str) -> bool:
    """Whether a group's id may be the name of a znode."""
    return bool(group_id) and group_id not in (".", "..") and all(each > "\x1f" and each != "/" for each in group_id)


class ConsumerOffsets(Part):
    """Reads and writes offsets of consumers. The part `consumer_offsets` of `KafkaZkClient`; raises what it does."""

    async def read(self, group_id: str, partition: TopicPartition) -> int | None:
        """Return the offset; None if there is none."""
        path = path_of(group_id, partition)
        node = await self._transactions.get(path)
        if node is None or not node.data:
            return None
        try:
            return int(node.data)
        except ValueError as error:
            raise MalformedZNode(path, "expected an offset in decimal digits", node.data) from error

    async def write(self, group_id: str, partition: TopicPartition, offset: int) -> None:
        """Set the offset, at any version, as Kafka does: the last commit counts."""
        path, data = path_of(group_id, partition), str(offset).encode()
        written = await self._transactions.write(SetData(path, data, MATCH_ANY_VERSION), "consumer-offset")
        if written is Failure.NO_NODE:
            created = await self._transactions.create_recursive(path, data, "consumer-offset")
            tolerate(created, path, Failure.NODE_EXISTS)
        elif isinstance(written, Failure):
            tolerate(written, path)
