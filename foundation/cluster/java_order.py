"""The order in which Java's `HashMap` and `HashSet` iterate, on which several tools and assignors depend.

It depends on the hash codes and on the size of the table alone; keys of one bucket stay in the order of insertion.
(Java turns a bucket with more than eight keys in a large table into a tree, which is not mirrored.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java import java_hash, signed_32

K = TypeVar("K")

DEFAULT_CAPACITY = 16


def partition_hash(partition: TopicPartition) -> int:
    """Return the hash code of Kafka's `TopicPartition`."""
    return signed_32(31 * (31 + partition.partition) + java_hash(partition.topic))


def bucket(hash_code: int, most_held: int, capacity: int = DEFAULT_CAPACITY) -> int:
    """Return the bucket of a hash code in a hash table of Java that has held `most_held` keys.

    Args:
        capacity: what the table was created with.
    """
    size = 1
    while size < capacity or most_held > size * 3 / 4:
        size *= 2
    return (hash_code ^ (hash_code & 0xFFFF_FFFF) >> 16) & (size - 1)


def in_order(keys: Iterable[K], hash_code: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> list[K]:
    """Return distinct keys as a hash map of Java iterates over them.

    Args:
        keys: in the order of insertion.
        capacity: what the map was created with.
    """
    distinct = list(dict.fromkeys(keys))
    return sorted(distinct, key=lambda key: bucket(hash_code(key), len(distinct), capacity))


def strings(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Return `in_order` of strings."""
    return in_order(keys, java_hash, capacity)


def partitions(keys: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return `in_order` of partitions."""
    return in_order(keys, partition_hash)
