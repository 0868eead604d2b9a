"""`/feature` and `/latest_producer_id_block`: read, decided upon, and written over exactly what was read (ZN-7, ZN-8).

They are not fenced (EL-13). No check of `/controller_epoch` is needed, because a write holds only while the znode is at
the
version its writer has read: of two controllers that believe in themselves one has to read again. Mirrors
`createFeatureZNode` and `updateFeatureZNode`, which write at any version, and the loop of `ZkProducerIdManager`.
"""

from __future__ import annotations

from typing import NamedTuple

from foundation.zk.admin_znodes import Features, FeatureZNode, ProducerIdBlock, ProducerIdBlockZNode
from foundation.zk.client import Create, Failure, SetData, Updated
from foundation.zk.transactions import Transactions, ZooKeeperFailure, tolerate


class FeatureNode(NamedTuple):
    features: Features
    version: int
    """The data version of the znode: the epoch of the finalized features."""


class LatestProducerIdBlock(NamedTuple):
    block: ProducerIdBlock | None
    """None before the first."""
    version: int


async def read_features(transactions: Transactions, *, watch: bool) -> FeatureNode | None:
    """None where there is no such znode; `watch` uses exists, so that a watch stays on an absent one."""
    if watch and await transactions.exists(FeatureZNode.path, watch=True) is None:
        return None
    node = await transactions.get(FeatureZNode.path)
    return None if node is None else FeatureNode(FeatureZNode.decode(node.data), node.stat.version)


async def write_features(transactions: Transactions, features: Features, read: FeatureNode | None) -> int | None:
    """The version they were written at, or None where `read` is no longer what is there."""
    data = FeatureZNode.encode(features)
    if read is None:
        written = await transactions.write(Create(FeatureZNode.path, data), "feature")
    else:
        written = await transactions.write(SetData(FeatureZNode.path, data, read.version), "feature")
    if isinstance(written, Failure):
        tolerate(written, FeatureZNode.path, Failure.NODE_EXISTS, Failure.BAD_VERSION, Failure.NO_NODE)
        return None
    return written.stat.version if isinstance(written, Updated) else 0


async def read_producer_id_block(transactions: Transactions) -> LatestProducerIdBlock:
    """
    Raises:
        ZooKeeperFailure: NO_NODE. Somebody has deleted the znode, and with it which ids have been given away; to begin
            with 0 would give them away again. Kafka's controller reads it for ever.
    """
    node = await transactions.get(ProducerIdBlockZNode.path)
    if node is None:
        raise ZooKeeperFailure(Failure.NO_NODE, f"{ProducerIdBlockZNode.path}, which every starting broker makes")
    block = ProducerIdBlockZNode.decode(node.data) if node.data else None
    return LatestProducerIdBlock(block, node.stat.version)


async def write_producer_id_block(
    transactions: Transactions, block: ProducerIdBlock, read: LatestProducerIdBlock
) -> bool:
    """Whether `block` is now the latest and nobody else's.

    False also where it was written and the answer got lost: another controller may have written the very same bytes for
    the same broker. Such a block is nobody's, and there are enough.
    """
    data = ProducerIdBlockZNode.encode(block)
    op = SetData(ProducerIdBlockZNode.path, data, read.version)
    written = await transactions.write(op, "producer-ids", adopts=False)
    tolerate(written, op.path, Failure.BAD_VERSION)
    return not isinstance(written, Failure)
