"""Reads the members of a group as a person writes them: `NAME`, `NAME:TOPIC,…`, `NAME@RACK`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.clusters.clients.assignors.subscriptions import ReplicaRacks, Subscription
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.planning.members import MembershipChange
from understudy.kafka_tools.planning.plan_answer import BadPlan
from understudy.kafka_tools.planning.replicas import ReplicaPlan, place


def member(word: str, topics: Mapping[str, int]) -> tuple[str, Subscription]:
    """Return the name and subscription of a member; without topics it is subscribed to all.

    Raises:
        BadPlan: the word has no name, or an empty topic or rack.
    """
    rest, at, rack = word.partition("@")
    name, colon, listed = rest.partition(":")
    subscribed = tuple(listed.split(",")) if colon else tuple(topics)
    if not name or not all(subscribed) or (at and not rack):
        raise BadPlan(f"{word!r} is not a member: expected NAME, NAME:TOPIC,… or NAME@RACK, for example C1-0:orders@r1")
    return name, Subscription(subscribed, rack=rack or None)


def members(words: Iterable[str], topics: Mapping[str, int]) -> dict[str, Subscription]:
    """Return the members that words stand for; raises BadPlan, also if two have one name."""
    found: dict[str, Subscription] = {}
    for word in words:
        name, subscription = member(word, topics)
        if name in found:
            raise BadPlan(f"--member {name}: it is given twice; give each member another name")
        found[name] = subscription
    return found


def changes(words: Iterable[tuple[bool, str]], topics: Mapping[str, int]) -> tuple[MembershipChange, ...]:
    """Return the changes that words stand for, each with whether a member joins; raises BadPlan."""
    return tuple(
        MembershipChange(*member(word, topics)) if joins else MembershipChange(word, None) for joins, word in words
    )


def replica_racks(topics: Mapping[str, int], rack_of: Mapping[int, str | None], factor: int) -> ReplicaRacks:
    """Return the racks of each partition's replicas, placed on brokers from the first on; raises BadPlan."""
    racks: dict[TopicPartition, frozenset[str]] = {}
    for topic, partitions in topics.items() if rack_of else ():
        plan = ReplicaPlan(rack_of=rack_of, partitions=partitions, replication_factor=min(factor, len(rack_of)))
        for placement in place(plan)[1]:
            here = frozenset(rack for broker in placement.replicas if (rack := rack_of[broker]) is not None)
            racks[TopicPartition(topic, placement.partition)] = here
    return racks
