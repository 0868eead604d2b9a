"""`GroupEvents` writes what happens to groups into the event log."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.member_metadata import MemberMetadata
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    AssignedMember,
    GroupAssigned,
    GroupOffset,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    OffsetsCommitted,
    OffsetsRemoved,
)
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from understudy.foundation.wire.version_prefixed import decode_prefixed

DELETED_EPOCH = -1


class GroupEvents:
    """Writes the records of groups.

    Args:
        has_offsets: whether commits are written as well (`understudy.events.logs`).
    """

    def __init__(self, events: EventLog, *, has_offsets: bool) -> None:
        self._events = events
        self._has_offsets = has_offsets

    def transition(self, group: GroupMetadata, source: GroupState, reason: str) -> None:
        self._events.append(
            GroupTransition(
                group=group.group_id,
                partition=group.partition,
                source=source.value,
                target=group.state.value,
                generation=group.generation_id,
                members=len(group.members),
                reason=reason,
            )
        )

    def assigned(self, group: GroupMetadata) -> None:
        self._events.append(
            GroupAssigned(
                group=group.group_id,
                partition=group.partition,
                generation=group.generation_id,
                protocol_type=group.protocol_type or "",
                protocol=group.protocol_name or "",
                leader=group.leader_id or "",
                members=tuple(_assigned(member, group) for member in group.members.values()),
            )
        )

    def loaded(self, partition: int, leader_epoch: int, *, groups: int, offsets: int, unreadable: int) -> None:
        self._events.append(
            GroupsLoaded(
                partition=partition, leader_epoch=leader_epoch, groups=groups, offsets=offsets, unreadable=unreadable
            )
        )

    def unloaded(self, partition: int, leader_epoch: int | None, *, groups: int, offsets: int) -> None:
        epoch = DELETED_EPOCH if leader_epoch is None else leader_epoch
        self._events.append(GroupsUnloaded(partition=partition, leader_epoch=epoch, groups=groups, offsets=offsets))

    def offsets_committed(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, appended_at: int
    ) -> None:
        if self._has_offsets:
            self._events.append(
                OffsetsCommitted(
                    group=group.group_id,
                    partition=group.partition,
                    generation=group.generation_id,
                    appended_at=appended_at,
                    offsets=_offsets(offsets),
                )
            )

    def offsets_removed(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata], reason: str
    ) -> None:
        if self._has_offsets:
            self._events.append(
                OffsetsRemoved(
                    group=group.group_id, partition=group.partition, offsets=_offsets(offsets), reason=reason
                )
            )


def _offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[GroupOffset, ...]:
    return tuple(GroupOffset(*partition, value.offset) for partition, value in offsets.items())


def _assigned(member: MemberMetadata, group: GroupMetadata) -> AssignedMember:
    partitions = _partitions(member.assignment) if group.is_consumer_group else ()
    return AssignedMember(member.member_id, member.group_instance_id or "", member.client_id, partitions)


def _partitions(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """Return the partitions in a consumer's assignment; none if it is empty or cannot be read."""
    try:
        decoded = decode_prefixed(ConsumerProtocolAssignment, assignment)
    except MalformedMessage:
        return ()
    return tuple((topic.topic, number) for topic in decoded.assigned_partitions for number in topic.partitions)
