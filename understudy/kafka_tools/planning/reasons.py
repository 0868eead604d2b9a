"""Gives the reasons for an assignment, in sentences with the group's own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from understudy.clusters.clients.assignors.subscriptions import Assignment, ReplicaRacks, Subscription, in_member_order


class Rebalance(NamedTuple):
    """One generation of a group: the input of the assignor and its assignment.

    Attributes:
        cause: the reason why it began.
        before: the former assignment, including members that have left.
    """

    cause: str
    topics: Mapping[str, int]
    members: Mapping[str, Subscription]
    racks: ReplicaRacks
    before: Assignment
    after: Assignment


def of_range(group: Rebalance) -> Iterator[str]:
    alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for topic, count in sorted(group.topics.items()):
        members = tuple(each for each in in_member_order(group.members) if topic in group.members[each].topics)
        alike.setdefault((count, members), []).append(topic)
    for (count, members), topics in alike.items():
        named = ", ".join(topics)
        if not members:
            yield f"{named}: no member is subscribed."
            continue
        each, more = divmod(count, len(members))
        extra = f", and one more for {' and '.join(members[:more])}" if more else ""
        of_each = "" if len(topics) == 1 else " of each"
        yield f"{named}: {count} partitions{of_each} for {', '.join(members)}; {each} each{extra}."
        if more and len(topics) > 1:
            yield f"The first members have one more of each of the {len(topics)} topics."
    yield from _racks(group)


def of_round_robin(group: Rebalance) -> Iterator[str]:
    yield f"The partitions, topic by topic, go to {', '.join(in_member_order(group.members))} in turn."
    if not _is_alike(group):
        yield "A member that is not subscribed to a topic is passed over."


def of_sticky(group: Rebalance) -> Iterator[str]:
    members = len(group.members)
    each, more = divmod(sum(group.topics[topic] for topic in _subscribed(group)), members)
    if _is_alike(group):
        extra = f", and one more for {more} of them" if more else ""
        yield f"The share of each of the {members} members is {each}{extra}."
        yield "A member keeps what it had, up to its share."
    else:
        yield "Members keep what they had; the rest goes to those with the fewest."
        yield "Partitions move after that only while the balance improves: the subscriptions differ."
    yield from _racks(group)


def of_cooperative(group: Rebalance) -> Iterator[str]:
    yield from of_sticky(group)
    yield "What another member still has is not assigned yet."


def of_historic(group: Rebalance) -> Iterator[str]:
    yield (
        f"The partitions, in the order of a hash, are dealt out to {', '.join(sorted(group.members))} in turn: so "
        "Kafka's consumers did before 0.9."
    )


def _racks(group: Rebalance) -> Iterator[str]:
    if not any(each.rack for each in group.members.values()) or not group.racks:
        return
    inside = sum(
        group.members[member].rack in group.racks.get(partition, frozenset())
        for member, assigned in group.after.items()
        for partition in assigned
    )
    total = sum(map(len, group.after.values()))
    yield f"{inside} of {total} partitions have a replica in the rack of their member (KIP-881)."


def _subscribed(group: Rebalance) -> set[str]:
    return {topic for each in group.members.values() for topic in each.topics}


def _is_alike(group: Rebalance) -> bool:
    return len({frozenset(each.topics) for each in group.members.values()}) == 1
