"""Records of the logs of partitions.

They say which batches are appended, replicated, truncated and acknowledged. They are many, so a broker writes them only
with `understudy.events.logs=true`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from understudy.foundation.eventlog.record_types.base import RecordPayload


class LoggedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One record batch of a log, written as an array of eight values."""

    base_offset: int
    """Offset of its first record."""
    next_offset: int
    """The offset after its last record."""
    leader_epoch: int
    """The leader epoch in the batch: the epoch of the leader that appended it first."""
    crc: int
    """The checksum in the batch; it covers neither the base offset nor the leader epoch."""
    producer_id: int = -1
    """Producer id of an idempotent producer; −1 without one."""
    producer_epoch: int = -1
    """The producer's epoch; −1 without a producer id."""
    base_sequence: int = -1
    """Sequence number of the first record; −1 without a producer id, and in control batches."""
    last_sequence: int = -1
    """Sequence number of the last record; less than the first one if the numbers wrap at 2³¹."""


class _LogRecord(RecordPayload, frozen=True, kw_only=True, gc=False):
    """The base class of the records about one log."""

    topic: str
    """The topic's name."""
    topic_id: str
    """The topic's id, which differs if a topic is created again under its name."""
    partition: int
    """The partition's number in the topic, from 0."""


class LogOpened(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when a log, created or loaded and recovered, gets its first role after a start."""

    log_start_offset: int
    """The first offset that can be read."""
    log_end_offset: int
    """The offset that the next record gets. Records that a loss of power took are not there any more."""
    high_watermark: int
    """The high watermark with which the broker starts: the value of its checkpoint, or the log start offset."""
    epochs: tuple[tuple[int, int], ...]
    """The entries of the leader epoch cache: (leader epoch, its first offset)."""


class LeaderStarted(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it begins to lead a partition, after its leader epoch cache has the new epoch."""

    leader_epoch: int
    """The leader epoch in which it leads."""
    log_end_offset: int
    """The offset that the next record gets."""
    high_watermark: int
    """The high watermark with which it begins."""
    epochs: tuple[tuple[int, int], ...]
    """As in `LogOpened`."""


class RecordsAppended(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has appended batches to a log."""

    role: str
    """`leader` for batches of producers, `follower` for batches of the leader."""
    leader_epoch: int
    """The leader epoch in which the broker leads or follows."""
    batches: tuple[LoggedBatch, ...]
    """The batches, in the order of their offsets."""


class HighWatermarkChanged(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when the high watermark of a partition has changed."""

    role: str
    """`leader` or `follower`."""
    leader_epoch: int
    """The leader epoch in which the broker leads or follows."""
    high_watermark: int
    """The offset up to which records are committed."""
    log_end_offset: int
    """The broker's own log end offset."""
    replica_end_offsets: tuple[tuple[int, int], ...] = ()
    """(broker id, log end offset) of the replicas that the leader waits for: those in its maximal ISR, and those
    outside it that have caught up and may join. Empty from a follower."""


class LogTruncated(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has removed records from the end of a log, or all of them, to follow a leader.

    Also written if the log had no such record: its leader epoch cache may have lost entries.
    """

    leader_epoch: int
    """The leader epoch in which the broker follows."""
    to_offset: int
    """The log end offset from now on."""
    is_full: bool
    """Whether all records are removed and the log begins at `to_offset`, because the leader's log begins there."""
    log_end_offset: int
    """The log end offset before."""
    high_watermark: int
    """The broker's high watermark before."""
    epochs: tuple[tuple[int, int], ...]
    """The entries of the leader epoch cache that are left: (leader epoch, its first offset)."""


class RecordsAcknowledged(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a leader before it answers a producer that its records are there."""

    leader_epoch: int
    """The leader epoch in which the records were appended."""
    base_offset: int
    """Offset of the first record."""
    last_offset: int
    """Offset of the last record."""
    acks: int
    """What the producer asked for: 1, or −1 for all in-sync replicas."""
    isr_at_append: tuple[int, ...] = ()
    """Broker ids of the committed ISR when the records were appended."""
    isr: tuple[int, ...] = ()
    """Broker ids of the maximal ISR when they were acknowledged: with those whose joining is not committed yet."""
    min_insync_replicas: int = 1
    """The topic's `min.insync.replicas`, but not more than the partition has replicas."""
    answered_in_epoch: int = -1
    """The leader epoch of the answer. It is larger than the epoch of the records if they were appended before an
    election and sent again after it; −1: the same."""


class LogCleaned(_LogRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker just before a compacted segment takes the place of others in a log.

    Of their records only the newest of each key is left, and tombstones for a time. Batches keep their offsets, but
    have another checksum if they were changed. A follower that fetches them gets them so.
    """

    from_offset: int
    """The offset at which the segments begin."""
    to_offset: int
    """The offset after the last of them."""
    segments: int
    """How many segments are replaced."""
    records_read: int
    """The records that were read of them; batches of aborted transactions are removed unread."""
    records_kept: int
    """The records that are left."""
    bytes_read: int
    """The bytes of the segments before."""
    bytes_written: int
    """The bytes of the remaining batches."""


ReplicationRecord: TypeAlias = (
    LogOpened | LeaderStarted | RecordsAppended | HighWatermarkChanged | LogTruncated | RecordsAcknowledged | LogCleaned
)
