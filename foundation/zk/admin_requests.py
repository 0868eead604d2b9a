"""Reads and writes the requests that tools leave for the controller in `/admin`.

These are topic deletions, preferred leader elections and reassignments. Mirrors their methods in `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import structlog

from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.admin_znodes import (
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.client import MATCH_ANY_VERSION, Create, Failure, SetData
from understudy.foundation.zk.transactions import Fenced, Part, ZooKeeperFailure, tolerate
from understudy.foundation.zk.znodes import MalformedZNode

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class TopicDeletions(Part):
    """`/admin/delete_topics`: topics marked for deletion. The part `topic_deletions` of `KafkaZkClient`."""

    async def topics(self, *, watch: bool = False) -> tuple[str, ...]:
        """List the topics marked for deletion; `watch` arms the child watch."""
        listed = await self._transactions.children(DeleteTopicsZNode.path, watch=watch)
        return listed.names if listed else ()

    async def mark(self, topic: str) -> bool:
        """Mark `topic` for deletion, unfenced (TX-1); False if it was marked already."""
        path = DeleteTopicsTopicZNode.path(topic)
        refused = await self._transactions.create_recursive(path, None, "topic-deletion")
        tolerate(refused, path, Failure.NODE_EXISTS)
        return refused is None

    async def is_marked(self, topic: str) -> bool:
        """Whether `topic` is marked for deletion."""
        return await self._transactions.exists(DeleteTopicsTopicZNode.path(topic)) is not None

    async def unmark(self, topics: Sequence[str], epoch_zk_version: int) -> None:
        """Delete the markers of `topics`, fenced."""
        paths = [DeleteTopicsTopicZNode.path(topic) for topic in topics]
        await self._transactions.delete_all(paths, "topic-deletion", Fenced(epoch_zk_version))


class PreferredElections(Part):
    """`/admin/preferred_replica_election`. The part `preferred_elections` of `KafkaZkClient`."""

    async def read(self, *, watch: bool = False) -> tuple[TopicPartition, ...] | None:
        """Read the partitions to elect a preferred leader for; None without the znode, () if it is malformed."""
        node = await self._transactions.get_optional(PreferredReplicaElectionZNode.path, watch=watch)
        if node is None:
            return None
        try:
            return PreferredReplicaElectionZNode.decode(node.data)
        except MalformedZNode as error:
            _log.error("preferred replica election ignored", why=str(error))
            return ()

    async def create(self, partitions: Collection[TopicPartition]) -> bool:
        """Ask for elections, unfenced, as tools with `--zookeeper` do; False if the znode exists already."""
        path = PreferredReplicaElectionZNode.path
        data = PreferredReplicaElectionZNode.encode(partitions)
        refused = await self._transactions.create_recursive(path, data, "preferred-election")
        tolerate(refused, path, Failure.NODE_EXISTS)
        return refused is None

    async def delete(self, epoch_zk_version: int) -> None:
        """Delete the znode, fenced."""
        paths = [PreferredReplicaElectionZNode.path]
        await self._transactions.delete_all(paths, "preferred-election", Fenced(epoch_zk_version))


class Reassignments(Part):
    """`/admin/reassign_partitions`. The part `reassignments` of `KafkaZkClient`."""

    async def watch(self) -> bool:
        """Arm the watch of the znode; return whether it exists."""
        return await self._transactions.exists(ReassignPartitionsZNode.path, watch=True) is not None

    async def read(self, *, watch: bool = False) -> dict[TopicPartition, tuple[BrokerId, ...]] | None:
        """Read the target replicas of each partition; None without the znode, {} if it is malformed (RA-6)."""
        node = await self._transactions.get_optional(ReassignPartitionsZNode.path, watch=watch)
        if node is None:
            return None
        try:
            return ReassignPartitionsZNode.decode(node.data)
        except MalformedZNode as error:
            _log.warning("partition reassignment ignored", why=str(error))
            return {}

    async def write(
        self, replicas_by_partition: Mapping[TopicPartition, Sequence[BrokerId]], epoch_zk_version: int
    ) -> None:
        """Set the znode, or create it if it is absent, fenced (RA-14)."""
        path, data = ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(replicas_by_partition)
        for write in (SetData(path, data, MATCH_ANY_VERSION), Create(path, data)):
            result = (await self._transactions.fenced([write], "reassignment", Fenced(epoch_zk_version)))[0]
            if result is not Failure.NO_NODE:
                tolerate(result, path)
                return
        raise ZooKeeperFailure(Failure.NO_NODE, path)

    async def delete(self, epoch_zk_version: int) -> None:
        """Delete the znode, fenced."""
        paths = [ReassignPartitionsZNode.path]
        await self._transactions.delete_all(paths, "reassignment", Fenced(epoch_zk_version))
