"""The fetch sessions that this broker keeps for its clients (KIP-227). Mirrors `kafka.server.FetchSession`.

A session remembers what a client fetches and what it was answered: a request names only what has changed of the first,
and an answer only the partitions of which the second has changed. A request whose epoch is not the expected one is
refused, because an answer may have been lost; the client then names everything again.

The session of a follower also knows which of its partitions have changed since its last answer. A Fetch reads no others
(`FetchSession.unsettled`), so that an idle follower costs as much with ten thousand partitions as with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from understudy.brokers.replication.delayed_operations import DelayedOperation, DelayedOperationPurgatory
from understudy.brokers.replication.partition import LastFetch
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.wire.messages.fetch import FetchPartition, PartitionData

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
"""Epoch of a request that asks for a new session."""
FINAL_EPOCH: Final = -1
"""Epoch of a request that uses no session, and closes the one that it names."""
MAX_INT32: Final = 2**31 - 1
UNKNOWN_OFFSET: Final = -1
FIRST_VERSION_BY_TOPIC_ID: Final = 13

Key: TypeAlias = tuple[str, int]
"""How a request names a partition: by its topic's id from version 13 on, by its topic's name before; and its index."""

TopicNames: TypeAlias = Mapping[TopicId, str]


def next_epoch(epoch: int) -> int:
    """The epoch that follows in a session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_INT32 else epoch + 1


class RequestedPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a Fetch; `topic_partition` is None if its topic id is unknown.

    `gc=False` and one `TopicPartition` for all lookups: a follower fetches up to 33,000 partitions.
    """

    topic_partition: TopicPartition | None
    topic_id: TopicId
    fetch: FetchPartition


Requested: TypeAlias = dict[Key, RequestedPartition]
Found: TypeAlias = dict[Key, PartitionData]


class CachedPartition(msgspec.Struct, eq=False, gc=False):
    """A partition of a session: what the client fetches of it, and what the client was answered about it.

    Attributes:
        position: its place in the order of the session.
        high_watermark, log_start_offset: the offsets in the last answer about it.
    """

    requested: RequestedPartition
    position: int
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET

    def note_answer(self, data: PartitionData) -> bool:
        """Remember the data of the next answer; return whether the answer has to name the partition at all.

        After an error the high watermark counts as unknown, so that the partition is named when the error is gone;
        `maybeUpdateResponseData`.
        """
        has_error = data.error_code != Errors.NONE
        is_new = self.high_watermark != data.high_watermark or self.log_start_offset != data.log_start_offset
        self.high_watermark = UNKNOWN_OFFSET if has_error else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return (
            is_new
            or has_error
            or bool(data.records)
            or data.preferred_read_replica >= 0
            or data.diverging_epoch.epoch >= 0
        )


class FetchSession:
    """One session. Only its partitions, its epoch and the time of its last Fetch change.

    Attributes:
        id: as the client names it.
        epoch: the epoch that the next request must have.
        follower: the broker id of the follower; negative for a consumer.
        is_privileged: it was opened by a follower.
        partitions: in the order in which they are read. One that had records comes last next time.
        last_fetch: when the last request of the session came.
        changes: what wakes a waiting Fetch of a follower, and which partitions have changed; None for a consumer.
        is_closed: the session is in the cache no more.
    """

    def __init__(
        self,
        session_id: int,
        *,
        follower: int,
        uses_topic_ids: bool,
        now_ms: float,
        purgatory: DelayedOperationPurgatory,
    ) -> None:
        self.id = session_id
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.follower = follower
        self.is_privileged = follower >= 0
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.cached_size = 0
        """How many partitions it had at its last Fetch, by which the cache compares sessions."""
        self.partitions: dict[Key, CachedPartition] = {}
        self.last_fetch = LastFetch(now_ms)
        self.changes: DelayedOperation | None = DelayedOperation() if self.is_privileged else None
        self.is_closed = False
        self.metadata: object = None
        """The snapshot of the metadata cache that its last Fetch was judged by."""
        self._purgatory = purgatory
        self._unsettled: set[Key] = set()
        self._keys: dict[TopicPartition, tuple[Key, ...]] = {}
        self._next_position = 0

    # ------------------------------------------------------------------ the partitions fetched

    def update(self, named: Mapping[Key, RequestedPartition], forgotten: Iterable[Key]) -> list[RequestedPartition]:
        """Take over what a request names, and drop what it forgets; return what was dropped."""
        for key, requested in named.items():
            cached = self.partitions.get(key)
            if cached is None:
                self._add(key, CachedPartition(requested, self._position()))
            else:
                known = cached.requested.topic_partition
                # The name that an id had stays, although its topic may be deleted by now.
                name = requested.topic_partition if known is None else known
                cached.requested = RequestedPartition(name, requested.topic_id, requested.fetch)
                self._unsettled.add(key)
                if known is None:
                    self._watch(key, name)
        dropped = []
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self._unsettled.discard(key)
                self._unwatch(key, cached.requested.topic_partition)
                dropped.append(cached.requested)
        return dropped

    def add_answered(self, requested: Requested, found: Mapping[Key, PartitionData]) -> None:
        """Take over the partitions of the request that opens the session, and what it is answered."""
        for key, data in found.items():
            cached = CachedPartition(requested[key], self._position())
            cached.note_answer(data)
            self._add(key, cached)

    def requested(self, names: TopicNames) -> Requested:
        """Return what a Fetch has to read, in order: of a consumer all partitions, of a follower the unsettled ones."""
        if self.changes is None:
            keys: Iterable[Key] = self.partitions
        else:
            self.take_changed()
            keys = sorted(self._unsettled, key=self._position_of)
        if self.uses_topic_ids:
            return {key: self._resolved(key, names) for key in keys}
        return {key: self.partitions[key].requested for key in keys}

    def _resolved(self, key: Key, names: TopicNames) -> RequestedPartition:
        """A partition under its topic's name, if that was unknown and is known now."""
        cached = self.partitions[key]
        requested = cached.requested
        if requested.topic_partition is None and (name := names.get(requested.topic_id)) is not None:
            requested = msgspec.structs.replace(requested, topic_partition=TopicPartition(name, key[1]))
            cached.requested = requested
            self._watch(key, requested.topic_partition)
        return requested

    def _add(self, key: Key, cached: CachedPartition) -> None:
        self.partitions[key] = cached
        self._unsettled.add(key)
        self._watch(key, cached.requested.topic_partition)

    def _position(self) -> int:
        self._next_position += 1
        return self._next_position

    def _position_of(self, key: Key) -> int:
        return self.partitions[key].position

    # ------------------------------------------------------------------ what has changed

    @property
    def unsettled(self) -> frozenset[Key]:
        """The partitions that the next Fetch of a follower has to read.

        A partition is settled when its follower has all of its records and offsets, and nothing has changed since.
        """
        self.take_changed()
        return frozenset(self._unsettled)

    def take_changed(self) -> list[Key]:
        """Return the partitions that have changed since the last call, which are unsettled by that."""
        if self.changes is None:
            return []
        keys = [key for name in self.changes.take_changed() for key in self._keys.get(name, ())]
        self._unsettled.update(keys)
        return keys

    def settle(self, key: Key) -> None:
        """Have the next Fetches not read a partition, until it changes."""
        self._unsettled.discard(key)

    def unsettle_all(self) -> None:
        self._unsettled.update(self.partitions)

    def _watch(self, key: Key, name: TopicPartition | None) -> None:
        if self.changes is None or name is None or self.is_closed:
            return
        before = self._keys.get(name, ())
        if not before:
            self._purgatory.add(self.changes, name)
        self._keys[name] = (*before, key)

    def _unwatch(self, key: Key, name: TopicPartition | None) -> None:
        if self.changes is None or name not in self._keys:
            return
        left = tuple(other for other in self._keys[name] if other != key)
        if left:
            self._keys[name] = left
        else:
            del self._keys[name]
            self._purgatory.remove(self.changes, name)

    def close(self) -> None:
        """Watch the partitions no more. A Fetch that waits in the session is answered."""
        self.is_closed = True
        if self.changes is not None:
            for name in self._keys:
                self._purgatory.remove(self.changes, name)
            self._keys.clear()
            self.changes.end()

    # ------------------------------------------------------------------ answers

    def answer(self, found: Mapping[Key, PartitionData]) -> Found:
        """Return those partitions, in the order of the session, that the answer has to name.

        The ones with records come last from now on, so that no partition keeps others from being read.
        """
        answered: Found = {}
        for key in sorted((key for key in found if key in self.partitions), key=self._position_of):
            cached, data = self.partitions[key], found[key]
            if cached.note_answer(data):
                answered[key] = data
                if data.records:
                    cached.position = self._position()
                    self.partitions[key] = self.partitions.pop(key)
        return answered
