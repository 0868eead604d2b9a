"""Groups partitions by topic, as requests have them, and lists the partitions of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import TopicPartition

P = TypeVar("P")
P_in = TypeVar("P_in", contravariant=True)
P_out = TypeVar("P_out", covariant=True, bound="HasIndex")
T_out = TypeVar("T_out", covariant=True)


class HasIndex(Protocol):
    """What an answer has of one partition."""

    @property
    def partition_index(self) -> int: ...


H = TypeVar("H", bound=HasIndex)


class HasPartitions(Protocol[P_out]):
    """What an answer has of one topic."""

    @property
    def name(self) -> str | None: ...
    @property
    def partitions(self) -> tuple[P_out, ...]: ...


class MakesTopic(Protocol[P_in, T_out]):
    """The class of the topics in a request, or a function that makes one."""

    def __call__(self, *, name: str, partitions: tuple[P_in, ...]) -> T_out: ...


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Return the numbers of partitions by topic, in the order given."""
    return grouped(partitions)


def nested(topic_of: MakesTopic[P, T_out], partitions: Mapping[TopicPartition, P]) -> tuple[T_out, ...]:
    """Return the topics of a request with their partitions, in the order given."""
    by_name = grouped((at.topic, partition) for at, partition in partitions.items())
    return tuple(topic_of(name=topic, partitions=of_topic) for topic, of_topic in by_name.items())


def by_partition(topics: Iterable[HasPartitions[H]]) -> dict[TopicPartition, H]:
    """Return what an answer has of each partition, in its order."""
    return {
        TopicPartition(topic.name or "", each.partition_index): each for topic in topics for each in topic.partitions
    }
