"""Partitions move to other brokers. Mirrors `onPartitionReassignment` and the events around it (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection

from controller.events import ApiPartitionReassignment, ListPartitionReassignments
from controller.term import Term
from foundation.cluster.identifiers import BrokerId, TopicPartition


async def resume(term: Term) -> None:
    """FO-11: what was under way when this controller took over; what the znode asks for comes first."""


async def process_zk_partition_reassignment(term: Term) -> None:
    """RA-6: `/admin/reassign_partitions` has been created."""


async def process_api_partition_reassignment(term: Term, event: ApiPartitionReassignment) -> None:
    """RA-1 to RA-5."""


async def process_list_partition_reassignments(term: Term, event: ListPartitionReassignments) -> None:
    """RA-7."""
    asked = event.partitions if event.partitions is not None else sorted(term.context.partitions_being_reassigned)
    found = ((partition, term.context.partition_assignment(partition)) for partition in asked)
    event.reply.resolve({partition: assignment for partition, assignment in found if assignment.is_being_reassigned})


async def process_partition_reassignment_isr_change(term: Term, partition: TopicPartition) -> None:
    """RA-13, where leaders write their ISRs themselves."""


async def resume_for_brokers(term: Term, new: Collection[BrokerId]) -> None:
    """RA-13: a broker has started that partitions on the move are waiting for."""


async def maybe_complete(term: Term, partitions: Collection[TopicPartition]) -> None:
    """RA-13: the ISRs of these partitions have grown or shrunk; those on the move may have arrived."""
