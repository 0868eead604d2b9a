"""The round-robin assignment of Kafka's consumers before 0.9, to compare with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from understudy.clusters.clients.assignors.subscriptions import Assignment
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java import java_hash


def historic_order(topics: Mapping[str, int]) -> list[TopicPartition]:
    """Return the partitions in the order of the Java hash of `[topic,partition]`.

    Mirrors `kafka.consumer.RoundRobinAssignor`.
    """
    every = [TopicPartition(topic, number) for topic in sorted(topics) for number in range(topics[topic])]
    return sorted(every, key=lambda each: java_hash(f"[{each.topic},{each.partition}]"))


def deal(order: Sequence[TopicPartition], members: Collection[str]) -> Assignment:
    """Return the partitions of each member, in the order in which they are dealt out to the members in turn."""
    sorted_members = sorted(members)
    return {member: tuple(order[place :: len(sorted_members)]) for place, member in enumerate(sorted_members)}
