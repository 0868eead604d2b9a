"""Appends records of groups to `__consumer_offsets`; the records of one turn of the event loop go into one batch.

Mirrors the batches of `CoordinatorRuntime`. Kafka's wait for `group.coordinator.append.linger.ms`; here nothing
lingers. What arrives while a batch is appended and replicated makes the next one, so that batches grow with the load,
and one commit alone waits for no other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.group.group_records import BATCH_BYTES, KeyAndValue, encode_batch_of, encode_stored
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC
from understudy.brokers.replication.replica_manager import ALL_ACKS, Appended, ReplicaManager
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.batch import NO_SEQUENCE
from understudy.foundation.records.compression import Compression

NOT_APPENDED: Final = -1

MOST_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Maximum number of bytes of keys and values that wait to be replicated; a commit beyond it is to be sent again
later."""

_TOO_LARGE: Final = (Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE)

WriteDone: TypeAlias = Callable[[Errors, int], None]
"""Called with the error of the append, and the offset of the first of the records, or `NOT_APPENDED`."""


class _Write(NamedTuple):
    """Records that are in one batch, or refused together."""

    records: Sequence[KeyAndValue]
    size: int
    done: WriteDone


class _Batch:
    """The writes to one partition that are appended together, in their order."""

    __slots__ = ("base_sequence", "ended", "number", "size", "writes")

    def __init__(self, number: int, base_sequence: int) -> None:
        self.number = number
        self.base_sequence = base_sequence
        self.writes: list[_Write] = []
        self.size = 0
        self.ended: Appended | Errors | None = None
        """How the append ended; None before it."""

    def add(self, write: _Write) -> None:
        self.writes.append(write)
        self.size += write.size


class GroupWriter:
    """Writes to the partitions of `__consumer_offsets` that this broker leads.

    Args:
        spawn: runs a coroutine as a task of the broker, under a name.
    """

    def __init__(
        self,
        *,
        config: Callable[[], KafkaConfig],
        replicas: ReplicaManager,
        clock: Clock,
        spawn: Callable[[Coroutine[object, object, None], str], object],
    ) -> None:
        self._config = config
        self._replicas = replicas
        self._clock = clock
        self._spawn = spawn
        self._open: dict[int, _Batch] = {}
        """The batch of each partition to which further writes are added."""
        self._waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether so much waits to be replicated that no client's commit should be added."""
        return self._waiting_bytes >= MOST_WAITING_BYTES

    def write(
        self, number: int, records: Sequence[KeyAndValue], done: WriteDone, *, base_sequence: int = NO_SEQUENCE
    ) -> None:
        """Append records to a partition with the next batch.

        Args:
            records: at least one; they are appended together or not at all.
            done: called when the in-sync replicas have them or it is known why not, in the order of writes and never
                before this returns. The error is one of the append, or of `ReplicaManager.wait_until_replicated`.
            base_sequence: the sequence number of the batch, if this is its first write.
        """
        write = _Write(records, sum([len(key) + len(value or b"") for key, value in records]), done)
        self._waiting_bytes += write.size
        batch = self._open.get(number)
        if batch is not None and batch.size + write.size > BATCH_BYTES:
            self._append(batch)
            batch = None
        if batch is None:
            batch = self._open[number] = _Batch(number, base_sequence)
            self._spawn(self._store(batch), "store-groups")
        batch.add(write)

    def write_tombstones(self, number: int, records: Iterable[KeyAndValue]) -> None:
        """Append tombstones to a partition, after all that was written before; nothing waits for them.

        Raises:
            ApiError: the append is refused.
        """
        batch = self._open.get(number)
        if batch is not None:
            self._append(batch)
        partition = self._replicas.led_partition(offsets_partition(number))
        for data in encode_stored(records, now_ms=int(self._clock.wall_ms()), compression=self._compression):
            self._replicas.append_as_leader(partition, data, required_acks=0, from_client=False)

    def abandon(self, number: int) -> None:
        """Append nothing more of what was written to a partition, because this broker leads it no more."""
        batch = self._open.pop(number, None)
        if batch is not None:
            batch.ended = Errors.NOT_LEADER_OR_FOLLOWER

    async def _store(self, batch: _Batch) -> None:
        """Append a batch unless that was done meanwhile, wait until it is replicated, and report to its writes."""
        if batch.ended is None:
            self._append(batch)
        ended = batch.ended
        assert ended is not None, "an append ends at once"
        offset, error = NOT_APPENDED, Errors.NONE
        if isinstance(ended, Errors):
            error = ended
        else:
            error = await self._replicated(ended)
            offset = ended.info.first_offset
        for write in batch.writes:
            self._waiting_bytes -= write.size
            write.done(error, offset)
            if offset != NOT_APPENDED:
                offset += len(write.records)

    def _append(self, batch: _Batch) -> None:
        """Append a batch. If it is too large, each of its writes becomes a batch of its own."""
        if self._open.get(batch.number) is batch:
            del self._open[batch.number]
        try:
            batch.ended = self._append_together(batch)
        except ApiError as refused:
            batch.ended = refused.error
            if refused.error in _TOO_LARGE and len(batch.writes) > 1:
                writes, batch.writes = batch.writes, []
                for write in writes:
                    alone = _Batch(batch.number, batch.base_sequence)
                    alone.add(write)
                    self._append(alone)
                    self._spawn(self._store(alone), "store-groups")

    def _append_together(self, batch: _Batch) -> Appended:
        partition = self._replicas.led_partition(offsets_partition(batch.number))
        records = chain.from_iterable([write.records for write in batch.writes])
        data = encode_batch_of(
            records,
            now_ms=int(self._clock.wall_ms()),
            compression=self._compression,
            base_sequence=batch.base_sequence,
        )
        return self._replicas.append_as_leader(partition, data, required_acks=ALL_ACKS, from_client=False)

    async def _replicated(self, appended: Appended) -> Errors:
        timeout_ms = self._config().offsets_commit_timeout_ms
        topic_partition = appended.partition.topic_partition
        ended = await self._replicas.wait_until_replicated({topic_partition: appended}, timeout_ms=timeout_ms)
        return ended[topic_partition]

    @property
    def _compression(self) -> Compression:
        return Compression(self._config().offsets_topic_compression_codec)


def offsets_partition(number: int) -> TopicPartition:
    """Return a partition of `__consumer_offsets`."""
    return TopicPartition(GROUP_METADATA_TOPIC, number)
