"""Adds to the history of a group what its coordinators have recorded in their event logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from foundation.eventlog.records import Envelope, GroupAssigned, GroupTransition, OffsetsCommitted, OffsetsRemoved
from understudy.checkers.groups import GroupHistory, StoredAssignment
from understudy.checkers.replica_logs import partitions_that_may_have_lost

OFFSETS_TOPIC = "__consumer_offsets"


def add_records(history: GroupHistory, records: Iterable[Envelope]) -> None:
    """Add the assignments that coordinators have stored, and excuse the groups that may have lost offsets.

    Those are the groups whose partition of `__consumer_offsets` had an unclean election, or a leader that a loss of
    power had left without records (`understudy.events.logs=true` shows it), and those whose offsets were removed: they
    had expired, or were deleted.

    Args:
        records: those of each node in the order in which it has written them.
    """
    every = list(records)
    groups_of: defaultdict[int, set[str]] = defaultdict(set)
    for record in every:
        match record.data:
            case GroupTransition(group=group, partition=partition) | OffsetsCommitted(group=group, partition=partition):
                groups_of[partition].add(group)
            case GroupAssigned() as assigned:
                groups_of[assigned.partition].add(assigned.group)
                history.stored.append(
                    StoredAssignment(
                        assigned.group,
                        assigned.generation,
                        {
                            member.group_instance_id or member.member_id: frozenset(member.partitions)
                            for member in assigned.members
                        },
                    )
                )
            case OffsetsRemoved(group=group):
                history.may_have_lost.add(group)
            case _:
                pass
    for topic, partition in partitions_that_may_have_lost(every):
        if topic == OFFSETS_TOPIC:
            history.may_have_lost |= groups_of[partition]
