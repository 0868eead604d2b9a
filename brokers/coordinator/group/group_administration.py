"""What operators ask about groups: list, describe, delete them and their offsets.

Mirrors those methods of `kafka.coordinator.group.GroupCoordinator`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import structlog

from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_metadata_manager import GroupMetadataManager
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.rebalances import Rebalances
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.operator_lines import some
from understudy.foundation.wire.messages.describe_groups import DescribedGroup
from understudy.foundation.wire.messages.list_groups import ListedGroup

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.coordinator.group.GroupCoordinator")

CLASSIC: Final = "classic"
"""The type of every group here (KIP-848)."""


class GroupAdministration:
    """Answers operators.

    Args:
        error_for: why this broker does not answer for a group, by its id; `may_be_empty` as in `GroupCoordinator`.
    """

    def __init__(self, manager: GroupMetadataManager, rebalances: Rebalances, error_for: Callable[..., Errors]) -> None:
        self._manager = manager
        self._rebalances = rebalances
        self._error_for = error_for

    def list_groups(self, states: Collection[str], types: Collection[str]) -> tuple[Errors, list[ListedGroup]]:
        """Return the groups of this broker in any of `states` and of any of `types`, or all if these are empty.

        States and types are compared without regard to case.
        """
        wanted = {state.lower() for state in states}
        if types and CLASSIC not in {each.lower() for each in types}:
            groups: Iterable[GroupMetadata] = ()
        else:
            groups = self._manager.groups.values()
        found = [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=CLASSIC,
            )
            for group in groups
            if not wanted or group.state.value.lower() in wanted
        ]
        return Errors.COORDINATOR_LOAD_IN_PROGRESS if self._manager.is_loading else Errors.NONE, found

    def describe_group(self, group_id: str) -> DescribedGroup:
        """Return the state and the members of a group; one that does not exist counts as Dead."""
        error = self._error_for(group_id, may_be_empty=True)
        if error is not Errors.NONE:
            return DescribedGroup(error_code=error, group_id=group_id)
        group = self._manager.get(group_id)
        return (
            DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value) if group is None else group.described()
        )

    def delete_groups(self, group_ids: Iterable[str]) -> dict[str, Errors]:
        """Delete groups without members, and their offsets; return the error of each."""
        errors = {group_id: self._delete(group_id) for group_id in group_ids}
        deleted = [group_id for group_id, error in errors.items() if error is Errors.NONE]
        if deleted:
            log.info("groups were deleted", count=len(deleted), group_ids=list(some(deleted)))
        return errors

    def _delete(self, group_id: str) -> Errors:
        error = self._error_for(group_id, may_be_empty=True)
        if error is not Errors.NONE:
            return error
        group = self._manager.get(group_id)
        if group is None:
            return Errors.GROUP_ID_NOT_FOUND
        if group.state is not GroupState.EMPTY:
            return Errors.NON_EMPTY_GROUP
        self._rebalances.end(group, "deleted")
        self._manager.remove_offsets(group, lambda dead: dead.offsets.remove_all(), reason="deleted")
        return Errors.NONE

    def delete_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[Errors, dict[TopicPartition, Errors]]:
        """Delete offsets of a group that no member may need; return the error of the request, or each partition's."""
        error = self._error_for(group_id)
        if error is not Errors.NONE:
            return error, {}
        group = self._manager.get(group_id)
        if group is None:
            return Errors.GROUP_ID_NOT_FOUND, {}
        if group.state is GroupState.EMPTY:
            subscribed: list[TopicPartition] = []
        elif group.is_consumer_group:
            subscribed = [each for each in partitions if group.is_subscribed_to(each.topic)]
        else:
            return Errors.NON_EMPTY_GROUP, {}
        errors = dict.fromkeys(partitions, Errors.NONE) | dict.fromkeys(subscribed, Errors.GROUP_SUBSCRIBED_TO_TOPIC)
        removable = [partition for partition, each in errors.items() if each is Errors.NONE]
        if removable:
            count = self._manager.remove_offsets(group, lambda it: it.offsets.remove(removable), reason="deleted")
            self._manager.meters.deletions.record(count)
            log.info("offsets of a group were deleted", group=group_id, offsets=count)
        return Errors.NONE, errors

    def partitions_deleted(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove the offsets of partitions that were deleted with their topic (CO-5)."""
        removed = 0
        deleted = frozenset(partitions)
        for group in tuple(self._manager.groups.values()):
            if group.offsets.has_any(deleted):
                removed += self._manager.remove_offsets(
                    group, lambda it: it.offsets.remove(partitions), reason="topic deleted"
                )
        log.info("removed offsets associated with deleted partitions", offsets=removed, partitions=len(partitions))
