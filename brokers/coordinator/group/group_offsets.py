"""The offsets of a group: those that are committed, and those that are appended and not replicated yet.

Mirrors the offsets of `kafka.coordinator.group.GroupMetadata`, without the offsets of transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from understudy.foundation.cluster.identifiers import TopicPartition

NO_LEADER_EPOCH = -1


class OffsetAndMetadata(NamedTuple):
    """What a consumer commits for a partition. Mirrors `kafka.common.OffsetAndMetadata`.

    Attributes:
        leader_epoch: the leader epoch of the last record consumed; -1 if the client does not know it.
        commit_timestamp: wall time in ms.
        expire_timestamp: wall time in ms from which the offset is removed; None for the broker's retention. Clients up
            to OffsetCommit version 4 may set it.
    """

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp: int = 0
    expire_timestamp: int | None = None


class CommittedOffset(NamedTuple):
    """An offset, and the offset in `__consumer_offsets` of the first record of its commit: the later commit counts.

    For one that was read from the log it is the first record of the batch, which may have several commits.
    """

    appended_at: int
    value: OffsetAndMetadata


class GroupOffsets:
    """The committed and the pending offsets of one group."""

    __slots__ = ("_committed", "_pending")

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, OffsetAndMetadata] = {}

    def __len__(self) -> int:
        """The number of committed offsets (`numOffsets`)."""
        return len(self._committed)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._committed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is committed and nothing pending."""
        return not self._committed and not self._pending

    def get(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return the committed offset of a partition."""
        found = self._committed.get(partition)
        return None if found is None else found.value

    def is_pending(self, partition: TopicPartition) -> bool:
        """Whether a commit of a partition is appended and not replicated."""
        return partition in self._pending

    def has_any(self, partitions: frozenset[TopicPartition]) -> bool:
        """Whether one of `partitions` has an offset, committed or pending."""
        return not (self._committed.keys().isdisjoint(partitions) and self._pending.keys().isdisjoint(partitions))

    def load(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Take over the offsets that were read from the log."""
        self._committed.update(offsets)

    def prepare(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note offsets that are being appended; of several commits of a partition the last one is the pending one."""
        self._pending.update(offsets)

    def complete(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], appended_at: int) -> None:
        """Commit offsets whose records are replicated.

        A partition whose pending commit is gone was removed meanwhile, with its topic, and stays removed. A commit that
        was appended earlier than the present one changes nothing.
        """
        for partition, value in offsets.items():
            pending = self._pending.get(partition)
            if pending is None:
                continue
            before = self._committed.get(partition)
            if before is None or before.appended_at < appended_at:
                self._committed[partition] = CommittedOffset(appended_at, value)
            if pending == value:
                del self._pending[partition]

    def fail(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Forget pending offsets whose records were refused or not replicated in time."""
        for partition, value in offsets.items():
            if self._pending.get(partition) == value:
                del self._pending[partition]

    def remove(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Remove the offsets of `partitions`, pending ones too; return those that were committed."""
        removed: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition in partitions:
            self._pending.pop(partition, None)
            found = self._committed.pop(partition, None)
            if found is not None:
                removed[partition] = found.value
        return removed

    def remove_all(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Remove every committed offset."""
        return self.remove(tuple(self._committed))

    def remove_expired(
        self,
        now_ms: int,
        retention_ms: int,
        *,
        base_timestamp: Callable[[OffsetAndMetadata], int],
        kept_topics: frozenset[str] = frozenset(),
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Remove the offsets whose time is over; return them.

        Args:
            retention_ms: how long an offset without an expiry of its own is kept after its `base_timestamp`.
            kept_topics: those whose offsets stay, because members are subscribed to them.
        """
        expired = []
        for partition, (_, value) in self._committed.items():
            if partition.topic in kept_topics or partition in self._pending:
                continue
            if value.expire_timestamp is None:
                is_over = now_ms - base_timestamp(value) >= retention_ms
            else:
                is_over = now_ms >= value.expire_timestamp
            if is_over:
                expired.append(partition)
        return self.remove(expired)
