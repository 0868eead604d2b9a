"""The order in which Java's `HashMap` and `HashSet` iterate, in which several tools print.

It depends on the hash codes and on the size of the table alone; keys of one bucket stay in the order of insertion.
(Java turns a bucket with more than eight keys in a large table into a tree, which is not mirrored.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java import java_hash

K = TypeVar("K")

DEFAULT_CAPACITY = 16
_MASK = 0xFFFF_FFFF


def partition_hash(partition: TopicPartition) -> int:
    """Return the hash code of Kafka's `TopicPartition`."""
    return (31 * (31 + partition.partition) + java_hash(partition.topic)) & _MASK


def in_order(keys: Iterable[K], hash_code: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> list[K]:
    """Return distinct keys as a hash map of Java iterates over them.

    Args:
        keys: in the order of insertion.
        capacity: what the map was created with.
    """
    distinct = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(distinct) > size * 3 / 4:
        size *= 2

    def bucket(key: K) -> int:
        hashed = hash_code(key) & _MASK
        return (hashed ^ hashed >> 16) & (size - 1)

    return sorted(distinct, key=bucket)


def strings(keys: Iterable[str], capacity: int = DEFAULT_CAPACITY) -> list[str]:
    """Return `in_order` of strings."""
    return in_order(keys, java_hash, capacity)


def partitions(keys: Iterable[TopicPartition], capacity: int = DEFAULT_CAPACITY) -> list[TopicPartition]:
    """Return `in_order` of partitions."""
    return in_order(keys, partition_hash, capacity)
