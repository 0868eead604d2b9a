"""Writes ISR changes that leaders make by themselves, before KIP-497, and their notifications to the controller.

These writes do not check `/controller_epoch`: they are applied only while the state is at the version that its leader
knows. Mirrors `ReplicationUtils.updateLeaderAndIsr` and `KafkaZkClient.propagateIsrChanges` (IS-16, IS-17).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.zk.admin_znodes import IsrChangeNotificationZNode
from understudy.foundation.zk.client import Create, Failure, SetData, Updated, ZNodeData
from understudy.foundation.zk.transactions import Fenced, Part, tolerate
from understudy.foundation.zk.znodes import MalformedZNode, TopicPartitionStateZNode

PURPOSE = "isr-changes"

PARTITIONS_PER_NOTIFICATION = 3_000
"""Number of partitions that fit into a znode whatever their names. Kafka writes all into one, and loses its connection
if they do not fit."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class IsrChanges(Part):
    """Writes, announces and reads ISR changes. The part `isr_changes` of `KafkaZkClient`, and raises what it does."""

    async def update(self, partition: TopicPartition, state: LeaderAndIsr, controller_epoch: int) -> int | None:
        """Write a state and return its new partition epoch; None if ZooKeeper holds another state (IS-16).

        A conflict with exactly this state is a success whose answer was lost.

        Args:
            state: its `partition_epoch` is the version that the znode must have.
            controller_epoch: of the controller that made this leadership, not of the present one.
        """
        path = TopicPartitionStateZNode.path(partition)
        data = TopicPartitionStateZNode.encode(state, controller_epoch)
        answer = await self._transactions.write(SetData(path, data, state.partition_epoch), "isr")
        if isinstance(answer, Updated):
            return answer.stat.version
        tolerate(answer, path, Failure.BAD_VERSION, Failure.NO_NODE)
        return await self._version_of(partition, LeaderIsrAndControllerEpoch(state, controller_epoch))

    async def propagate(self, partitions: Collection[TopicPartition]) -> None:
        """Notify the controller of the partitions whose ISR has changed; it reads their states (IS-17)."""
        path, remaining = IsrChangeNotificationZNode.sequence_path, sorted(partitions)
        while remaining:
            some, remaining = remaining[:PARTITIONS_PER_NOTIFICATION], remaining[PARTITIONS_PER_NOTIFICATION:]
            create = Create(path, IsrChangeNotificationZNode.encode(some), sequential=True)
            tolerate(await self._transactions.write(create, PURPOSE), path)

    async def read(self) -> dict[str, tuple[TopicPartition, ...]]:
        """Read the partitions whose ISR has changed, by notification; arms the child watch (IS-18).

        A notification that cannot be decoded names no partitions.
        """
        notifications = await self._transactions.read_children(IsrChangeNotificationZNode.path)
        return {name: _partitions_of(node) for name, node in notifications.items()}

    async def delete(self, names: Iterable[str], epoch_zk_version: int) -> None:
        """Delete the notifications with these names, fenced."""
        paths = [f"{IsrChangeNotificationZNode.path}/{name}" for name in names]
        await self._transactions.delete_all(paths, PURPOSE, Fenced(epoch_zk_version))

    async def delete_all(self, epoch_zk_version: int) -> None:
        """Delete all notifications, fenced; arms the child watch (FO-4)."""
        await self._transactions.delete_children(IsrChangeNotificationZNode.path, PURPOSE, Fenced(epoch_zk_version))

    async def _version_of(self, partition: TopicPartition, meant: LeaderIsrAndControllerEpoch) -> int | None:
        """Return the version of the state's znode if it holds exactly `meant`; None otherwise."""
        node = await self._transactions.get(TopicPartitionStateZNode.path(partition))
        if node is None:
            return None
        try:
            found = TopicPartitionStateZNode.decode(partition, node.data, meant.leader_and_isr.partition_epoch)
        except MalformedZNode:
            return None
        return node.stat.version if found == meant else None


def _partitions_of(notification: ZNodeData) -> tuple[TopicPartition, ...]:
    try:
        return IsrChangeNotificationZNode.decode(notification.data)
    except MalformedZNode as error:
        _log.error("ISR change notification ignored", why=str(error))
        return ()
