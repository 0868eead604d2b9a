"""Allocates blocks of producer ids to brokers (KIP-730). Mirrors `processAllocateProducerIds` and
`ZkProducerIdManager`.

A block is given to a broker only when ZooKeeper has confirmed the write. If the answer to a write was lost, the block
is left unused, because another controller may have written it. Each write expects the version that was read, so two
controllers cannot allocate the same block.
"""

from __future__ import annotations

import structlog

from understudy.controller.events import AllocateProducerIds
from understudy.controller.term import Term
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.zk.admin_znodes import MAX_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockZNode
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

BLOCK_SIZE = 1_000
"""Number of producer ids in one block."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_allocate_producer_ids(term: Term, event: AllocateProducerIds) -> None:
    """Write the next block of producer ids, and respond with it (ZN-8).

    Kafka retries without end while others write in between; here at most `conflict_rounds` times.

    Raises:
        ApiError, MalformedZNode, ZooKeeperFailure: there is no block for the broker; it receives an error code.
    """
    _validate(term, event.broker_id, event.broker_epoch)
    for _ in range(term.settings.conflict_rounds):
        read = await term.zk.producer_ids.read()
        block = next_block(read.block, event.broker_id)
        await term.points.reach("producer_ids.before_write")
        is_ours = await term.zk.producer_ids.write(block, read)
        await term.points.reach("producer_ids.after_write")
        if is_ours:
            log.info("allocated producer ids", broker=block.broker_id, first_id=block.first, last_id=block.last)
            event.reply.resolve(block)
            return
    raise ZooKeeperFailure(Failure.BAD_VERSION, ProducerIdBlockZNode.path)


def next_block(latest: ProducerIdBlock | None, broker_id: BrokerId) -> ProducerIdBlock:
    """Return the block of ids that follows `latest`. Pure.

    Raises:
        ApiError: not enough ids are left.
    """
    if latest is None:
        return ProducerIdBlock(broker_id, 0, BLOCK_SIZE - 1)
    if latest.last > MAX_PRODUCER_ID - BLOCK_SIZE:
        raise ApiError(
            Errors.UNKNOWN_SERVER_ERROR, f"Have exhausted all producerIds: the latest block ends at {latest.last}."
        )
    return ProducerIdBlock(broker_id, latest.last + 1, latest.last + BLOCK_SIZE)


def _validate(term: Term, broker_id: BrokerId, broker_epoch: int) -> None:
    """Refuse a request of a broker that is not registered, or of an earlier registration.

    Raises:
        ApiError: BROKER_ID_NOT_REGISTERED or STALE_BROKER_EPOCH.
    """
    known = term.context.broker_epoch(broker_id)
    if known is None:
        raise ApiError(Errors.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker_epoch != known and term.fences.record_hit(
        Fence.REQUEST_BROKER_EPOCH,
        what=f"AllocateProducerIds of {broker_id}",
        offered=broker_epoch,
        known=known,
    ):
        raise ApiError(
            Errors.STALE_BROKER_EPOCH, f"broker {broker_id} is registered with epoch {known}, not {broker_epoch}"
        )
