"""ISR changes that leaders wrote themselves, before KIP-497. Mirrors `processIsrChangeNotification`.

A leader of an old inter.broker.protocol.version writes the partition's state, and announces from time to time what it
has written. In a cluster that is being upgraded some leaders do, whatever the controller's own version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from controller.reassignment import partition_reassignment
from controller.term import Term
from foundation.cluster.identifiers import TopicPartition
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_isr_change_notification(term: Term) -> None:
    """IS-18. What was read is deleted also where it could not be followed up: it is in ZooKeeper all the same, and the
    notification would only be read again and fail again.

    Raises:
        ZooKeeperFailure: it could not be followed up.
    """
    notifications = await term.zk.isr_changes.read()
    if not notifications:
        return
    term.leaders_write_isrs = True
    partitions = sorted({partition for announced in notifications.values() for partition in announced})
    log.info("handling ISR change notifications", notifications=len(notifications), partitions=len(partitions))
    failed: ZooKeeperFailure | None = None
    try:
        await _follow_up(term, partitions)
    except ZooKeeperFailure as failure:
        failed = failure
    await term.points.reach("notifications.before_write")
    await term.zk.isr_changes.delete(notifications, term.context.epoch_zk_version)
    await term.points.reach("notifications.after_write")
    if failed is not None:
        raise failed


async def _follow_up(term: Term, announced: Sequence[TopicPartition]) -> None:
    """Read the states, pass them on, and see what has arrived. A partition nobody knows of is told of by its topic's
    znode.

    Where none is known, brokers hear of the live brokers alone, as from Kafka.
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


async def catch_up(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Read again what leaders may have written and not announced yet, before something is decided from memory.

    Memory that is behind is noticed where a decision is written over it, but not where it decides that there is nothing
    to
    write: that nobody is in sync who could lead, or that a replica has left the ISR already.
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
