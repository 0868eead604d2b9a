"""Consumer groups, by the records of their coordinators; a part of `tests.understudy.page.folding.fold`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from tests.understudy.page.folding.fold_state import EventLogPicture, GroupPicture, changed, with_entry, without
from understudy.foundation.eventlog.records import (
    Envelope,
    GroupAssigned,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    OffsetsCommitted,
    OffsetsRemoved,
)

_GroupRecord: TypeAlias = GroupTransition | GroupAssigned | OffsetsCommitted | OffsetsRemoved


def groups_after(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    """Return the picture after a record of a coordinator."""
    match record.data:
        case GroupTransition() | GroupAssigned() | OffsetsCommitted() | OffsetsRemoved() as data:
            return _changed(picture, record.node, data, lambda group: _group_after(group, data))
        case GroupsLoaded() as loaded:
            return _loaded(picture, record.node, loaded)
        case GroupsUnloaded(partition=partition):
            left = {
                name: replace(group, coordinator="")
                for name, group in _stored(picture, partition).items()
                if group.coordinator == record.node
            }
            node = picture.nodes[record.node]
            node = replace(node, coordinates=without(node.coordinates, [partition]))
            return replace(
                picture, nodes=with_entry(picture.nodes, record.node, node), groups=_with(picture.groups, left)
            )
        case _:
            return picture


def _changed(
    picture: EventLogPicture, name: str, data: _GroupRecord, change: Callable[[GroupPicture], GroupPicture]
) -> EventLogPicture:
    known = picture.groups.get(data.group)
    group = known if known is not None and known.partition == data.partition else GroupPicture(partition=data.partition)
    epoch = picture.nodes[name].coordinates.get(data.partition, -1)
    if group.coordinator != name and epoch < group.leader_epoch:
        return picture  # another broker has loaded the group in a later leader epoch
    group = change(replace(group, coordinator=name, leader_epoch=epoch))
    return replace(picture, groups=with_entry(picture.groups, data.group, group))


def _group_after(group: GroupPicture, data: _GroupRecord) -> GroupPicture:
    match data:
        case GroupTransition(target=target, generation=generation, members=members):
            group = replace(group, state=target, generation=generation, members=members)
            if target != "Empty":
                return group
            return replace(group, assigned=(), assigned_generation=generation, leader="")
        case GroupAssigned(generation=generation, leader=leader, members=assigned):
            return replace(
                group, generation=generation, assigned_generation=generation, leader=leader, assigned=assigned
            )
        case OffsetsCommitted(offsets=offsets):
            committed = ((each.topic, each.partition, each.offset) for each in offsets)
            return replace(group, offsets=changed(group.offsets, committed))
        case OffsetsRemoved(offsets=offsets):
            removed = ((each.topic, each.partition, None) for each in offsets)
            return replace(group, offsets=changed(group.offsets, removed))


def _loaded(picture: EventLogPicture, name: str, data: GroupsLoaded) -> EventLogPicture:
    node = picture.nodes[name]
    node = replace(node, coordinates=with_entry(node.coordinates, data.partition, data.leader_epoch))
    picture = replace(picture, nodes=with_entry(picture.nodes, name, node))
    stored = {
        group: each
        for group, each in _stored(picture, data.partition).items()
        if each.leader_epoch <= data.leader_epoch
    }
    if data.groups == 0:
        return replace(picture, groups=without(picture.groups, stored))
    return replace(
        picture,
        groups=_with(
            picture.groups,
            {
                group: replace(
                    each,
                    coordinator=name,
                    leader_epoch=data.leader_epoch,
                    state="Stable" if each.assigned else "Empty",
                    members=len(each.assigned),
                    generation=each.assigned_generation,
                )
                for group, each in stored.items()
            },
        ),
    )


def _stored(picture: EventLogPicture, partition: int) -> dict[str, GroupPicture]:
    return {name: group for name, group in picture.groups.items() if group.partition == partition}


def _with(known: Mapping[str, GroupPicture], changes: Mapping[str, GroupPicture]) -> Mapping[str, GroupPicture]:
    return MappingProxyType({**known, **changes})
