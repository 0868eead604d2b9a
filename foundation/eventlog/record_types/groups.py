"""Records of consumer groups, written by their coordinators.

Changes of state and assignments are few, and always written. Commits of offsets are many: they are written, as are the
records of logs, only with `understudy.events.logs=true`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from understudy.foundation.eventlog.record_types.base import RecordPayload


class AssignedMember(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One member of a group with its assignment, written as an array of four values."""

    member_id: str
    """The id that the coordinator gave it."""
    group_instance_id: str
    """The id of a static member; empty for others."""
    client_id: str
    """The name the client gives itself."""
    partitions: tuple[tuple[str, int], ...]
    """(topic, partition) of what it is to consume; empty if the group is no consumer group."""


class GroupOffset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One committed offset, written as an array of three values."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    offset: int
    """The offset of the next record to consume."""


class _GroupRecord(RecordPayload, frozen=True, kw_only=True, gc=False):
    """The base class of the records of one group."""

    group: str
    """The group's id."""
    partition: int
    """The partition of `__consumer_offsets` that stores the group and its offsets."""


class GroupTransition(_GroupRecord, frozen=True, kw_only=True, gc=False):
    """Written by a group's coordinator when the group has changed its state."""

    source: str
    """Kafka's name of the state that was left, for example `Stable`."""
    target: str
    """Kafka's name of the state that was entered."""
    generation: int
    """The group's generation afterwards."""
    members: int
    """The number of members afterwards."""
    reason: str
    """Why, in words."""


class GroupAssigned(_GroupRecord, frozen=True, kw_only=True, gc=False):
    """Written by a group's coordinator when the assignment of a generation is stored, before members are answered."""

    generation: int
    """The generation that the assignment is for."""
    protocol_type: str
    """`consumer` for consumer groups."""
    protocol: str
    """The protocol all members support, for example the name of an assignor."""
    leader: str
    """Member id of the leader, which has computed the assignment."""
    members: tuple[AssignedMember, ...]
    """Every member with its assignment."""


class GroupsLoaded(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has read a partition of `__consumer_offsets`, whose groups it coordinates now."""

    partition: int
    """The partition's number."""
    leader_epoch: int
    """The leader epoch in which the broker leads it."""
    groups: int
    """How many groups there are."""
    offsets: int
    """How many committed offsets these have."""
    unreadable: int
    """How many records could not be read, and are left out."""


class GroupsUnloaded(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has forgotten the groups of a partition of `__consumer_offsets`."""

    partition: int
    """The partition's number."""
    leader_epoch: int
    """The leader epoch in which the broker follows another one; −1 if the partition is deleted."""
    groups: int
    """How many groups it coordinated."""
    offsets: int
    """How many committed offsets these had."""


class OffsetsCommitted(_GroupRecord, frozen=True, kw_only=True, gc=False):
    """Written by a group's coordinator when committed offsets are replicated, before the client is answered."""

    generation: int
    """The group's generation."""
    appended_at: int
    """Offset of the first of their records in that partition."""
    offsets: tuple[GroupOffset, ...]
    """The offsets."""


class OffsetsRemoved(_GroupRecord, frozen=True, kw_only=True, gc=False):
    """Written by a group's coordinator when it has removed committed offsets."""

    offsets: tuple[GroupOffset, ...]
    """The offsets that were removed."""
    reason: str
    """`expired`, `deleted` by an operator, or `topic deleted`."""


CoordinatorRecord: TypeAlias = (
    GroupTransition | GroupAssigned | GroupsLoaded | GroupsUnloaded | OffsetsCommitted | OffsetsRemoved
)
