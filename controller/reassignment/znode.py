"""`/admin/reassign_partitions`, as moves begin and end. Mirrors `maybeRemoveFromZkReassignment`."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from controller.events import ZkPartitionReassignment
from controller.term import Term
from foundation.cluster.identifiers import BrokerId, TopicPartition

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def remove_from_znode(term: Term, is_over: Callable[[TopicPartition, tuple[BrokerId, ...]], bool]) -> None:
    """RA-14: write the znode without what `is_over`, by partition and target; without anything left, delete it.

    Looking for it arms its watch, as in Kafka: after somebody deleted it by hand, the next one is heard from now on.
    Deleted it
    is looked for again: its watch has fired, and whoever creates it before the next one is armed is not heard.
    """
    listed = await term.zk.reassignments.read(watch=True)
    if listed is None:
        return
    remaining = {partition: target for partition, target in listed.items() if not is_over(partition, target)}
    log.info(
        "removing partitions from the reassignment in zookeeper",
        removed=len(listed) - len(remaining),
        left=len(remaining),
    )
    await term.points.reach("reassignment.znode.before_write")
    if remaining:
        await term.zk.reassignments.write(remaining, term.context.epoch_zk_version)
    else:
        await term.zk.reassignments.delete(term.context.epoch_zk_version)
    await term.points.reach("reassignment.znode.after_write")
    if not remaining:
        term.put(ZkPartitionReassignment())
