"""Partitions move to other brokers: who asks for it, and when to look whether they have arrived.

A client asks, `/admin/reassign_partitions` asks, or a controller takes over in the middle of a move; the moves
themselves are in `controller.reassignment.phases`. Mirrors `processApiPartitionReassignment` and the events around it
(KIP-455).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from controller.context import ControllerContext
from controller.events import ApiPartitionReassignment, ListPartitionReassignments
from controller.reassignment.decisions import only_unwanted_in_sync, requested_by_client, requested_by_znode
from controller.reassignment.phases import Reassignments, complete_reassignments, on_partition_reassignment
from controller.reassignment.znode import remove_from_znode
from controller.term import Term
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.operator_lines import some

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


# ------------------------------------------------------------------ who asks


async def resume(term: Term) -> None:
    """FO-11: what was under way when this controller took over; what the znode asks for comes first."""
    taken = await process_zk_partition_reassignment(term)
    context = term.context
    moving = sorted(context.partitions_being_reassigned)
    unfinished = _with_strangers_in_sync(context, context.leadership)
    pending = [partition for partition in dict.fromkeys((*moving, *unfinished)) if partition not in taken]
    await on_partition_reassignment(term, _as_they_are(context, pending))


async def process_zk_partition_reassignment(term: Term) -> frozenset[TopicPartition]:
    """RA-6: `/admin/reassign_partitions` has been created. What cannot be done is taken out of it. Returns what has
    begun."""
    asked = await term.zk.reassignments.read(watch=True)
    if asked is None:
        return frozenset()
    requested: dict[TopicPartition, ReplicaAssignment] = {}
    refused: dict[TopicPartition, ApiError] = {}
    for partition, target in asked.items():
        outcome = requested_by_znode(term.context.partition_assignment(partition), target)
        if isinstance(outcome, ApiError):
            refused[partition] = outcome
        else:
            requested[partition] = outcome
    failed = refused | await _maybe_trigger(term, requested)
    if failed:
        told = {str(partition): str(failed[partition]) for partition in some(failed)}
        log.warning("failed reassignments through zk", failed=told, count=len(failed))
        await remove_from_znode(term, lambda partition, _: partition in failed)
    return frozenset(requested.keys() - failed.keys())


async def process_api_partition_reassignment(term: Term, event: ApiPartitionReassignment) -> None:
    """RA-1 to RA-5. The answer says which moves have begun, not that data has moved."""
    context = term.context
    live = frozenset(context.live_broker_ids)
    requested: dict[TopicPartition, ReplicaAssignment] = {}
    failed: dict[TopicPartition, ApiError] = {}
    for partition, target in event.reassignments.items():
        outcome = requested_by_client(context.partition_assignment(partition), target, live)
        if isinstance(outcome, ApiError):
            failed[partition] = outcome
        else:
            requested[partition] = outcome
    # The newest request wins; left in the znode, an older one would win when the next controller takes over (RA-4).
    await remove_from_znode(term, lambda partition, _: partition in requested)
    failed |= await _maybe_trigger(term, requested)
    event.reply.resolve({partition: failed.get(partition) for partition in event.reassignments})


async def process_list_partition_reassignments(term: Term, event: ListPartitionReassignments) -> None:
    """RA-7."""
    asked = event.partitions if event.partitions is not None else sorted(term.context.partitions_being_reassigned)
    found = ((partition, term.context.partition_assignment(partition)) for partition in asked)
    event.reply.resolve({partition: assignment for partition, assignment in found if assignment.is_being_reassigned})


async def _maybe_trigger(term: Term, reassignments: Reassignments) -> dict[TopicPartition, ApiError]:
    """RA-5: begin what can be begun; returns what cannot, and why.

    Where nobody is in sync but replicas that are not wanted any more, Kafka deletes these; its KRaft controller
    refuses, as we do.
    """
    context = term.context
    possible: dict[TopicPartition, ReplicaAssignment] = {}
    failed: dict[TopicPartition, ApiError] = {}
    for partition, reassignment in reassignments.items():
        if (
            context.is_topic_queued_for_deletion(partition.topic)
            or not context.partition_assignment(partition).replicas
        ):
            failed[partition] = ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        elif only_unwanted_in_sync(context.partition_assignment(partition), reassignment, _isr(context, partition)):
            failed[partition] = ApiError(
                Errors.INVALID_REPLICA_ASSIGNMENT,
                f"Of {partition} only replicas that would be deleted are in sync. Replica list: {list(reassignment.replicas)}, "
                f"ISR: {list(_isr(context, partition))}; wait until another replica is in sync.",
            )
        else:
            possible[partition] = reassignment
    return failed | await on_partition_reassignment(term, possible)


# ------------------------------------------------------------------ when to look (RA-13)


async def process_partition_reassignment_isr_change(term: Term, partition: TopicPartition) -> None:
    """The state of a partition on the move was rewritten by a leader that writes its ISR itself."""
    await maybe_complete(term, [partition])


async def resume_for_brokers(term: Term, new: Collection[BrokerId]) -> None:
    """A broker has started: partitions on the move to it begin once more."""
    context = term.context
    moving = sorted(context.partitions_being_reassigned)
    waiting = [p for p in moving if not set(new).isdisjoint(context.partition_assignment(p).target_replicas)]
    await on_partition_reassignment(term, _as_they_are(context, waiting))


async def maybe_complete(term: Term, partitions: Collection[TopicPartition]) -> None:
    """The ISRs of these partitions have grown or shrunk; those on the move may have arrived."""
    context = term.context
    moving = context.partitions_being_reassigned
    unfinished = frozenset(_with_strangers_in_sync(context, partitions))
    looked_at = [partition for partition in partitions if partition in moving or partition in unfinished]
    await complete_reassignments(term, _as_they_are(context, looked_at))


def _with_strangers_in_sync(context: ControllerContext, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those with a replica in sync that is not assigned (see `leaving_replicas`). A takeover asks this of every
    partition."""
    found = []
    for partition in partitions:
        known = context.leadership.get(partition)
        if known is not None:
            replicas, isr = context.partition_assignment(partition).replicas, known.leader_and_isr.isr
            if isr != replicas and not frozenset(replicas).issuperset(isr):
                found.append(partition)
    return context.without_queued_topics(found)


def _isr(context: ControllerContext, partition: TopicPartition) -> tuple[BrokerId, ...]:
    known = context.leadership.get(partition)
    return () if known is None else known.leader_and_isr.isr


def _as_they_are(context: ControllerContext, partitions: Collection[TopicPartition]) -> Reassignments:
    return {partition: context.partition_assignment(partition) for partition in partitions}
