"""Requests to reassign partitions, and the occasions on which a reassignment may be complete.

A client, `/admin/reassign_partitions` or a takeover starts a reassignment; the phases are in
`understudy.controller.reassignment.phases`. Mirrors `processApiPartitionReassignment` and the events around it
(KIP-455).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import structlog

from understudy.controller.context import ControllerContext
from understudy.controller.events import ApiPartitionReassignment, ListPartitionReassignments
from understudy.controller.reassignment.decisions import only_unwanted_in_sync, requested_by_client, requested_by_znode
from understudy.controller.reassignment.phases import Reassignments, complete_reassignments, on_partition_reassignment
from understudy.controller.reassignment.znode import remove_from_znode
from understudy.controller.term import Term
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.operator_lines import some

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


# ------------------------------------------------------------------ requests


async def resume(term: Term) -> None:
    """Resume the reassignments in progress at a takeover; those in the znode come first (FO-11)."""
    started = await process_zk_partition_reassignment(term)
    context = term.context
    moving = sorted(context.partitions_being_reassigned)
    unfinished = _with_unassigned_in_sync(context, context.leadership)
    pending = [partition for partition in dict.fromkeys((*moving, *unfinished)) if partition not in started]
    await on_partition_reassignment(term, _current_assignments(context, pending))


async def process_zk_partition_reassignment(term: Term) -> frozenset[TopicPartition]:
    """Start the reassignments in `/admin/reassign_partitions`, and remove those that failed from it (RA-6).

    Returns the partitions whose reassignment started.
    """
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
    failed = refused | await _maybe_trigger_reassignment(term, requested)
    if failed:
        first = {str(partition): str(failed[partition]) for partition in some(failed)}
        log.warning("failed reassignments through zk", failures=first, partitions=len(failed))
        await remove_from_znode(term, lambda partition, _: partition in failed)
    return frozenset(requested.keys() - failed.keys())


async def process_api_partition_reassignment(term: Term, event: ApiPartitionReassignment) -> None:
    """Start the reassignments that a client requests, and respond when they have started, not when they are complete
    (RA-1 to RA-5)."""
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
    # A request replaces an older one in the znode, which the next controller would otherwise resume (RA-4).
    await remove_from_znode(term, lambda partition, _: partition in requested)
    failed |= await _maybe_trigger_reassignment(term, requested)
    event.reply.resolve({partition: failed.get(partition) for partition in event.reassignments})


async def process_list_partition_reassignments(term: Term, event: ListPartitionReassignments) -> None:
    """Respond with the reassignments in progress (RA-7)."""
    asked = event.partitions if event.partitions is not None else sorted(term.context.partitions_being_reassigned)
    found = ((partition, term.context.partition_assignment(partition)) for partition in asked)
    event.reply.resolve({partition: assignment for partition, assignment in found if assignment.is_being_reassigned})


async def _maybe_trigger_reassignment(term: Term, reassignments: Reassignments) -> dict[TopicPartition, ApiError]:
    """Start the reassignments that are possible; return the others, and why they are not (RA-5).

    If the ISR holds only replicas that are to be removed, Kafka deletes them; its KRaft controller refuses, as we do.
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
                f"Of {partition} only replicas that would be deleted are in sync. "
                f"Replica list: {list(reassignment.replicas)}, ISR: {list(_isr(context, partition))}; "
                "wait until another replica is in sync.",
            )
        else:
            possible[partition] = reassignment
    return failed | await on_partition_reassignment(term, possible)


# ------------------------------------------------------------------ completion


async def process_partition_reassignment_isr_change(term: Term, partition: TopicPartition) -> None:
    """Look whether a reassignment is complete: a leader that writes its ISR itself has rewritten the state (RA-13)."""
    await maybe_complete(term, [partition])


async def resume_for_brokers(term: Term, new: Collection[BrokerId]) -> None:
    """Resume the reassignments to brokers that have started (RA-13)."""
    context = term.context
    moving = sorted(context.partitions_being_reassigned)
    waiting = [p for p in moving if not set(new).isdisjoint(context.partition_assignment(p).target_replicas)]
    await on_partition_reassignment(term, _current_assignments(context, waiting))


async def maybe_complete(term: Term, partitions: Collection[TopicPartition]) -> None:
    """Look whether reassignments of these partitions are complete, now that their ISRs have changed (RA-13)."""
    context = term.context
    moving = context.partitions_being_reassigned
    unfinished = frozenset(_with_unassigned_in_sync(context, partitions))
    looked_at = [partition for partition in partitions if partition in moving or partition in unfinished]
    await complete_reassignments(term, _current_assignments(context, looked_at))


def _with_unassigned_in_sync(context: ControllerContext, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions whose ISR has a member that is not assigned (see `leaving_replicas`). A takeover passes
    every partition."""
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


def _current_assignments(context: ControllerContext, partitions: Collection[TopicPartition]) -> Reassignments:
    return {partition: context.partition_assignment(partition) for partition in partitions}
