"""Removes entries from `/admin/reassign_partitions`. Mirrors `maybeRemoveFromZkReassignment`."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from understudy.controller.events import ZkPartitionReassignment
from understudy.controller.term import Term
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def remove_from_znode(term: Term, is_over: Callable[[TopicPartition, tuple[BrokerId, ...]], bool]) -> None:
    """Write the znode without the entries for which `is_over`(partition, target) holds; delete it if none is left
    (RA-14).

    Reading it arms its watch, as in Kafka, so that its next creation is noticed. After its deletion the event is queued
    again: it arms the watch that the deletion has fired, and reads a znode that was created meanwhile.
    """
    listed = await term.zk.reassignments.read(watch=True)
    if listed is None:
        return
    remaining = {partition: target for partition, target in listed.items() if not is_over(partition, target)}
    log.info(
        "removing partitions from the reassignment in zookeeper",
        removed=len(listed) - len(remaining),
        remaining=len(remaining),
    )
    await term.points.reach("reassignment.znode.before_write")
    if remaining:
        await term.zk.reassignments.write(remaining, term.context.epoch_zk_version)
    else:
        await term.zk.reassignments.delete(term.context.epoch_zk_version)
    await term.points.reach("reassignment.znode.after_write")
    if not remaining:
        term.put(ZkPartitionReassignment())
