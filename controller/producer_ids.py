"""Blocks of producer ids for brokers (KIP-730). Mirrors `processAllocateProducerIds` and `ZkProducerIdManager`.

A block belongs to whoever is told that it was written: a write that may have been somebody else's is not answered with,
and its ids go unused. That holds between controllers too, because each writes only over what it has read.
"""

from __future__ import annotations

import structlog

from controller.events import AllocateProducerIds
from controller.term import Term
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId
from foundation.eventlog.fences import Fence
from foundation.zk.admin_znodes import MAX_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockZNode
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import ZooKeeperFailure

BLOCK_SIZE = 1_000

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_allocate_producer_ids(term: Term, event: AllocateProducerIds) -> None:
    """ZN-8. Kafka tries as often as others write in between; here it is `conflict_rounds` times.

    Raises:
        ApiError, MalformedZNode, ZooKeeperFailure: what the broker hears a code of.
    """
    _validate(term, event.broker_id, event.broker_epoch)
    for _ in range(term.settings.conflict_rounds):
        read = await term.zk.producer_ids.read()
        block = next_block(read.block, event.broker_id)
        await term.points.reach("producer_ids.before_write")
        is_ours = await term.zk.producer_ids.write(block, read)
        await term.points.reach("producer_ids.after_write")
        if is_ours:
            log.info("allocated producer ids", broker=block.broker_id, first=block.first, last=block.last)
            event.reply.resolve(block)
            return
    raise ZooKeeperFailure(Failure.BAD_VERSION, ProducerIdBlockZNode.path)


def next_block(latest: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock:
    """The ids after `latest`. Pure.

    Raises:
        ApiError: there are not so many left.
    """
    if latest is None:
        return ProducerIdBlock(broker_id, 0, BLOCK_SIZE - 1)
    if latest.last > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise ApiError(
            Errors.UNKNOWN_SERVER_ERROR, f"Have exhausted all producerIds: the latest block ends at {latest.last}."
        )
    return ProducerIdBlock(broker_id, latest.last + 1, latest.last + BLOCK_SIZE)


def _validate(term: Term, broker_id: BrokerId, broker_epoch: int) -> None:
    """
    Raises:
        ApiError: BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    """
    known = term.context.broker_epoch(broker_id)
    if known is None:
        raise ApiError(Errors.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker_epoch != known and term.fences.record_hit(
        Fence.ALTER_PARTITION_BROKER_EPOCH,
        what=f"AllocateProducerIds of {broker_id}",
        offered=broker_epoch,
        known=known,
    ):
        raise ApiError(
            Errors.STALE_BROKER_EPOCH, f"broker {broker_id} is registered with epoch {known}, not {broker_epoch}"
        )
