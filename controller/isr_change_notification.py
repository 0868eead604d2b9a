"""Handles ISR changes that leaders older than KIP-497 wrote to ZooKeeper themselves. Mirrors
`processIsrChangeNotification`.

A leader with an old inter.broker.protocol.version writes its partition's state, and from time to time a notification
that names what it has written. During a rolling upgrade some leaders do so, whatever the controller's own version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from understudy.controller.reassignment import partition_reassignment
from understudy.controller.term import Term
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_isr_change_notification(term: Term) -> None:
    """Read the states that were announced, send them to all brokers, and delete the notifications (IS-18).

    They are deleted also if processing failed: reading them again would fail again.

    Raises:
        ZooKeeperFailure: processing failed.
    """
    notifications = await term.zk.isr_changes.read()
    if not notifications:
        return
    term.leaders_write_isrs = True
    partitions = sorted({partition for announced in notifications.values() for partition in announced})
    log.info("handling ISR change notifications", notifications=len(notifications), partitions=len(partitions))
    failed: ZooKeeperFailure | None = None
    try:
        await _process_changes(term, partitions)
    except ZooKeeperFailure as failure:
        failed = failure
    await term.points.reach("notifications.before_write")
    await term.zk.isr_changes.delete(notifications, term.context.epoch_zk_version)
    await term.points.reach("notifications.after_write")
    if failed is not None:
        raise failed


async def _process_changes(term: Term, announced: Sequence[TopicPartition]) -> None:
    """Read the states, send UpdateMetadata, and look whether reassignments are complete.

    A partition that is not in memory is left out; its topic's znode has a watch of its own. Without any partition
    UpdateMetadata carries the live brokers alone, as in Kafka.
    """
    if not announced:
        return
    context = term.context
    partitions = [partition for partition in announced if partition in context.assignments]
    await _read(term, partitions)
    await term.send_update_metadata(context.live_or_shutting_down_broker_ids, partitions)
    await partition_reassignment.maybe_complete(
        term, [p for p in partitions if p in context.partitions_being_reassigned]
    )


async def refresh_leadership(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Read states again that leaders may have written and not announced yet, before a decision is taken from memory.

    A write over an outdated state conflicts and is decided again. A decision not to write is not: that no replica in
    sync can lead, or that a replica has left the ISR already.
    """
    if term.leaders_write_isrs or not term.settings.inter_broker_protocol_version.is_alter_partition_supported:
        await _read(
            term, [partition for partition in dict.fromkeys(partitions) if partition in term.context.leadership]
        )


async def _read(term: Term, partitions: Sequence[TopicPartition]) -> None:
    states = await term.zk.states.read(partitions)
    term.context.put_leadership(
        {partition: state for partition, state in states.items() if not isinstance(state, Failure)}
    )
