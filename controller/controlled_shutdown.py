"""A broker asks to shut down: its leaderships move, and its replicas leave the ISRs. Mirrors `doControlledShutdown`.

Steps, in Kafka's order:

    1.  check that the broker is registered, with this broker epoch
    2.  note that the broker is shutting down: it is not elected any more, and may not join an ISR
    3.  elect other leaders for the partitions that it leads
    4.  send StopReplica for the partitions that it follows
    5.  take these replicas out of the ISRs, and send LeaderAndIsr to the other replicas
    6.  respond with the partitions that it still leads
"""

from __future__ import annotations

import structlog

from understudy.controller import partition_state_machine, replica_state_machine
from understudy.controller.events import ControlledShutdown
from understudy.controller.isr_change_notification import refresh_leadership
from understudy.controller.partition_state_machine import Strategy
from understudy.controller.term import Term
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.fences import Fence

UNKNOWN_BROKER_EPOCH = -1

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_controlled_shutdown(term: Term, event: ControlledShutdown) -> None:
    """Move leaderships and replicas off a broker, and respond with the partitions that it still leads although another
    replica could.

    The broker repeats its request until there are none, or shuts down anyway (CS-11).
    """
    context, broker = term.context, event.broker_id
    # Step 1.
    _validate(term, broker, event.broker_epoch)
    # Step 2.
    log.info("shutting down broker", broker=broker)
    context.shutting_down_broker_ids.add(broker)
    log.debug("all shutting down brokers", brokers=sorted(context.shutting_down_broker_ids))
    log.debug("live brokers", brokers=context.live_broker_ids)

    leadership = context.leadership
    concerned = [
        partition
        for partition in context.without_queued_topics(context.partitions_by_replica(only=[broker]).get(broker, ()))
        if len(context.partition_assignment(partition).replicas) > 1 and partition in leadership
    ]
    await refresh_leadership(term, concerned)
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition in concerned:
        (led if leadership[partition].leader_and_isr.leader == broker else followed).append(partition)
    # Step 3.
    await partition_state_machine.handle_state_changes(term, led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
    # Step 4.
    await _stop_followers(term, broker, followed)
    # Step 5.
    await replica_state_machine.handle_state_changes(term, {broker: followed}, ReplicaState.OFFLINE)
    # Step 6.
    event.reply.resolve((Errors.NONE, tuple(context.partition_leaders_on_broker(broker))))


def _validate(term: Term, broker: BrokerId, broker_epoch: int) -> None:
    """Refuse the request of a broker that is not registered, or of an earlier registration (CS-6, CS-7).

    Raises:
        ApiError: the error for the broker.
    """
    known = term.context.broker_epoch(broker)
    if broker_epoch == UNKNOWN_BROKER_EPOCH:
        if known is None:
            raise ApiError(Errors.BROKER_NOT_AVAILABLE, f"Broker id {broker} does not exist.")
        return
    if known is None:
        # Kafka fails with a NoSuchElementException here, which becomes this error (BUG-13).
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, f"Broker id {broker} is not registered.")
    if broker_epoch < known and term.fences.record_hit(
        Fence.REQUEST_BROKER_EPOCH,
        what=f"ControlledShutdown of {broker}",
        offered=broker_epoch,
        known=known,
    ):
        raise ApiError(
            Errors.STALE_BROKER_EPOCH,
            f"Received controlled shutdown request from an old broker epoch {broker_epoch} for broker {broker}. "
            f"Current broker epoch is {known}.",
        )


async def _stop_followers(term: Term, broker: BrokerId, partitions: list[TopicPartition]) -> None:
    """Send StopReplica before the replicas leave the ISR, so that they do not fetch and rejoin it (CS-10)."""
    batch = term.new_batch()
    batch.add_stop_replica(broker, partitions, delete=False)
    await term.flush(batch, "controlled_shutdown")
