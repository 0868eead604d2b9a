"""Requests that wait until something happens to their partitions. Mirrors `kafka.server.DelayedOperationPurgatory`.

An operation is watched under each of its partitions. What changes a partition calls `check_and_complete`, which wakes
the operations of that partition and no others; each decides by itself whether it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from understudy.foundation.cluster.identifiers import TopicPartition

MAX_WATCHED = 1_000_000
"""Maximum number of partitions watched at one time, each counted once for each operation. An operation beyond that does
not wait."""

MAX_DELAY_MS = 15 * 60_000
"""Maximum time that `wait_until` waits, whatever a client sends."""


class DelayedOperation:
    """One request that waits. Mirrors `kafka.server.DelayedOperation`."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._changed: dict[TopicPartition, None] = {}
        self._has_ended = False

    @property
    def is_woken(self) -> bool:
        """Whether one of its partitions has changed since `wait` last returned."""
        return self._woken.is_set()

    def take_changed(self) -> Collection[TopicPartition]:
        """Return which of its partitions have changed since the last call, in the order of their changes."""
        changed, self._changed = self._changed, {}
        return changed

    def wake(self, changed: TopicPartition | None = None) -> None:
        """Have the operation look again whether it is complete, because of a partition or of something else."""
        if changed is not None:
            self._changed[changed] = None
        self._woken.set()

    def end(self) -> None:
        """Wake the operation, now and whenever it waits."""
        self._has_ended = True
        self._woken.set()

    async def wait(self) -> None:
        """Return when one of its partitions has changed since the last call; the caller bounds the wait."""
        await self._woken.wait()
        if not self._has_ended:
            self._woken.clear()


class DelayedOperationPurgatory:
    """The waiting operations of one kind of request, by partition.

    Args:
        max_watched: how many partitions are watched at most, each counted once for each operation.
    """

    def __init__(self, max_watched: int = MAX_WATCHED) -> None:
        self.watched = 0
        """How many partitions are watched now, each counted once for each operation."""
        self._max_watched = max_watched
        self._watchers: dict[TopicPartition, list[DelayedOperation]] = {}

    def has_room_for(self, partitions: int) -> bool:
        """Whether an operation on `partitions` partitions may be watched."""
        return self.watched + partitions <= self._max_watched

    @contextmanager
    def watch(self, partitions: Iterable[TopicPartition]) -> Iterator[DelayedOperation]:
        """An operation that is woken by changes of `partitions`, until the block ends, in whatever way."""
        operation = DelayedOperation()
        watched = tuple(partitions)
        for topic_partition in watched:
            self.add(operation, topic_partition)
        try:
            yield operation
        finally:
            for topic_partition in watched:
                self.remove(operation, topic_partition)

    def add(self, operation: DelayedOperation, topic_partition: TopicPartition) -> None:
        """Wake an operation from now on when a partition changes, until `remove`."""
        self._watchers.setdefault(topic_partition, []).append(operation)
        self.watched += 1

    def remove(self, operation: DelayedOperation, topic_partition: TopicPartition) -> None:
        """Wake an operation no more when a partition changes."""
        watchers = self._watchers[topic_partition]
        watchers.remove(operation)
        self.watched -= 1
        if not watchers:
            del self._watchers[topic_partition]

    async def wait_until(
        self, partitions: Collection[TopicPartition], is_complete: Callable[[], bool], *, timeout_ms: float
    ) -> None:
        """Call `is_complete` now and whenever one of `partitions` changes, until it returns True.

        The last call is at the end of `timeout_ms`, which counts as `MAX_DELAY_MS` if a client sends more. Without room
        in the purgatory there is only the first one.
        """
        if is_complete() or not self.has_room_for(len(partitions)):
            return
        with self.watch(partitions) as operation:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(max(timeout_ms, 0), MAX_DELAY_MS) / 1000):
                    while not is_complete():
                        await operation.wait()
            is_complete()

    def check_and_complete(self, partitions: Iterable[TopicPartition]) -> None:
        """Wake every operation that waits for one of `partitions`."""
        if not self._watchers:
            return
        for topic_partition in partitions:
            for operation in self._watchers.get(topic_partition, ()):
                operation.wake(topic_partition)
