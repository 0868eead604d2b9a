"""Reads and writes `/feature` and `/latest_producer_id_block`, at the version that was read (ZN-7, ZN-8).

These writes are not fenced (EL-13). They need no check of `/controller_epoch`, because they are applied only while the
znode is at the version its writer has read: of two controllers, one of them deposed, one has to read again. Mirrors
`createFeatureZNode` and `updateFeatureZNode`, which write at any version, and the loop of `ZkProducerIdManager`.
"""

from __future__ import annotations

from typing import NamedTuple

from understudy.foundation.zk.admin_znodes import Features, FeatureZNode, ProducerIdBlock, ProducerIdBlockZNode
from understudy.foundation.zk.client import Create, Failure, SetData, Updated
from understudy.foundation.zk.transactions import Part, ZooKeeperFailure, tolerate


class FeatureNode(NamedTuple):
    """`/feature` as it was read."""

    features: Features
    version: int
    """The data version of the znode: the epoch of the finalized features."""


class LatestProducerIdBlock(NamedTuple):
    """`/latest_producer_id_block` as it was read."""

    block: ProducerIdBlock | None
    """None before the first allocation."""
    version: int


class FeatureZNodes(Part):
    """Reads and writes `/feature`. The part `features` of `KafkaZkClient`, and raises what it does."""

    async def read(self, *, watch: bool = False) -> FeatureNode | None:
        """Read the znode, None if it is absent; `watch` also watches an absent one."""
        node = await self._transactions.get_optional(FeatureZNode.path, watch=watch)
        return None if node is None else FeatureNode(FeatureZNode.decode(node.data), node.stat.version)

    async def write(self, features: Features, read: FeatureNode | None) -> int | None:
        """Write over what was read, unfenced; return the new version, or None if the znode has changed (FO-1)."""
        data = FeatureZNode.encode(features)
        if read is None:
            written = await self._transactions.write(Create(FeatureZNode.path, data), "feature")
        else:
            written = await self._transactions.write(SetData(FeatureZNode.path, data, read.version), "feature")
        if isinstance(written, Failure):
            tolerate(written, FeatureZNode.path, Failure.NODE_EXISTS, Failure.BAD_VERSION, Failure.NO_NODE)
            return None
        return written.stat.version if isinstance(written, Updated) else 0


class ProducerIdBlocks(Part):
    """Reads and writes `/latest_producer_id_block`. The part `producer_ids` of `KafkaZkClient`."""

    async def read(self) -> LatestProducerIdBlock:
        """Read the block of producer ids that was allocated last.

        Raises:
            ZooKeeperFailure: NO_NODE, when the znode was deleted. Which ids have been allocated is then not known, and
                beginning with 0 would allocate them again. Kafka's controller repeats the read without bound.
        """
        node = await self._transactions.get(ProducerIdBlockZNode.path)
        if node is None:
            raise ZooKeeperFailure(Failure.NO_NODE, f"{ProducerIdBlockZNode.path}, which every starting broker creates")
        block = ProducerIdBlockZNode.decode(node.data) if node.data else None
        return LatestProducerIdBlock(block, node.stat.version)

    async def write(self, block: ProducerIdBlock, read: LatestProducerIdBlock) -> bool:
        """Write over what was read, unfenced, and return whether `block` is now allocated to this writer alone (ZN-8).

        False also after a lost answer: another controller may have written the same bytes for the same broker. Such a
        block is skipped; there are enough.
        """
        data = ProducerIdBlockZNode.encode(block)
        op = SetData(ProducerIdBlockZNode.path, data, read.version)
        written = await self._transactions.write(op, "producer-ids", adopts=False)
        tolerate(written, op.path, Failure.BAD_VERSION)
        return not isinstance(written, Failure)
