"""Reads the partitions of a Fetch: which may be read, and up to which offset; returns their batches.

Mirrors `kafka.server.ReplicaManager.readFromLog`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import structlog
from msgspec.structs import replace

from understudy.brokers.apis.leader_hints import current_leader
from understudy.brokers.apis.partition_access import NO_EPOCH, epoch_end, epoch_error
from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.replication.fetch_session import Found, Key, RequestedPartition
from understudy.brokers.replication.partition import Partition, Role
from understudy.brokers.replication.replica_selector import preferred_read_replica
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID
from understudy.foundation.records.batch import size_of_first
from understudy.foundation.records.down_conversion import NotConvertible, down_convert
from understudy.foundation.records.errors import CorruptRecord, InvalidRecord
from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.messages.fetch import EpochEndOffset, FetchPartition, LeaderIdAndEpoch, PartitionData

logger: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaManager")

_WRONG_LEADER = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)
NO_OFFSET = -1
NO_REPLICA = -1
NO_DIVERGENCE = EpochEndOffset()
NOTHING_REFUSED: Final[Mapping[Key, Errors]] = MappingProxyType({})
FIRST_VERSION_WITH_WHOLE_BATCH = 3
WITH_FORMAT_1 = 2
WITH_FORMAT_2 = 4
"""First versions whose consumers read these message formats."""
WITH_ZSTD = 10
"""First version whose consumers read zstd (KIP-110)."""
WITH_STORAGE_ERROR = 6
"""First version whose consumers know KAFKA_STORAGE_ERROR."""
WITH_RACK = 11
WITH_LEADER_HINTS = 16


class FetchReader(NamedTuple):
    """The sender of a Fetch, and what it may read."""

    follower: int
    """Its broker id; negative for a consumer."""
    version: int
    is_read_committed: bool
    max_bytes: int
    rack: str = ""
    """The consumer's, by which a replica is chosen for it; empty if none is chosen."""
    listener: str = ""

    @property
    def is_follower(self) -> bool:
        return self.follower >= 0

    @property
    def converts(self) -> bool:
        """Whether it is a consumer that does not know batches, but only message sets."""
        return self.version < WITH_FORMAT_2 and not self.is_follower

    def end_offset(self, log: PartitionLog) -> int:
        """The offset that it may read up to."""
        if self.is_follower:
            return log.log_end_offset
        return log.last_stable_offset if self.is_read_committed else log.high_watermark


class FetchReading:
    """What one Fetch has found so far.

    Args:
        refused: the errors of partitions that are not to be read.

    Attributes:
        found: by partition; those with an error too.
    """

    def __init__(
        self,
        services: BrokerServices,
        reader: FetchReader,
        requested: Mapping[Key, RequestedPartition],
        min_bytes: int,
        refused: Mapping[Key, Errors] = NOTHING_REFUSED,
    ) -> None:
        self.found: Found = {}
        self._services = services
        self._reader = reader
        self._requested = requested
        self._refused = refused
        self._min_bytes = min(min_bytes, reader.max_bytes)
        self._size = 0
        self._has_result = False

    @property
    def is_complete(self) -> bool:
        """Whether the answer is to be sent at once: it has enough bytes, or a partition without any to read."""
        return self._has_result or self._size >= self._min_bytes

    def read(self, keys: Iterable[Key]) -> None:
        """Read partitions, for the first time or anew, until the answer has `max_bytes`.

        The first batch of the first partition that has one is sent even if it is larger than a limit: otherwise its
        reader would never get past it (KIP-74). Versions up to 2 keep to the limits.
        """
        reader = self._reader
        for key in keys:
            before = self.found.get(key)
            if before is not None:
                self._size -= len(before.records or b"")
            data = _read(
                self._services,
                self._requested[key],
                reader,
                refused=self._refused.get(key, Errors.NONE),
                max_bytes=max(reader.max_bytes - self._size, 0),
                min_one=self._size == 0 and reader.version >= FIRST_VERSION_WITH_WHOLE_BATCH,
            )
            self.found[key] = data
            self._size += len(data.records or b"")
            if (
                data.error_code != Errors.NONE
                or data.diverging_epoch.epoch != NO_EPOCH
                or data.preferred_read_replica != NO_REPLICA
            ):
                self._has_result = True

    def note_progress(self, now_ms: float) -> None:
        """Note how far the follower has what was read without an error, and that it has fetched at `now_ms`."""
        partitions, isr = self._services.replicas.partitions, self._services.isr
        for key, data in self.found.items():
            requested = self._requested[key]
            is_read = data.error_code == Errors.NONE and data.diverging_epoch.epoch == NO_EPOCH
            if is_read and requested.topic_partition is not None:
                isr.follower_fetched(
                    partitions[requested.topic_partition],
                    self._reader.follower,
                    requested.fetch.fetch_offset,
                    leader_epoch=requested.fetch.current_leader_epoch,
                    log_start_offset=requested.fetch.log_start_offset,
                    now_ms=now_ms,
                )

    def renew_offsets(self) -> None:
        """Enter the high watermarks as they are now."""
        partitions = self._services.replicas.partitions
        for key, data in self.found.items():
            name = self._requested[key].topic_partition
            partition = None if name is None else partitions.get(name)
            if data.error_code == Errors.NONE and partition is not None:
                log = partition.log
                if log.high_watermark != data.high_watermark:
                    self.found[key] = replace(
                        data, high_watermark=log.high_watermark, last_stable_offset=log.last_stable_offset
                    )


def partition_error(services: BrokerServices, requested: RequestedPartition, reader: FetchReader) -> Errors:
    """The error that one partition of a Fetch is answered with, or NONE (BK-13)."""
    topic_partition = requested.topic_partition
    if topic_partition is None:
        return Errors.UNKNOWN_TOPIC_ID
    if services.metadata.snapshot.partition(*topic_partition) is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    partition = services.replicas.partitions.get(topic_partition)
    if partition is None:
        return Errors.NOT_LEADER_OR_FOLLOWER
    state = partition.state
    if requested.topic_id != state.topic_id and NO_TOPIC_ID not in (requested.topic_id, state.topic_id):
        return Errors.INCONSISTENT_TOPIC_ID
    fetch = requested.fetch
    error = epoch_error(services, "Fetch", topic_partition, fetch.current_leader_epoch, state.leader_epoch)
    if error is not Errors.NONE:
        return error
    if state.role is not Role.LEADER:
        # Consumers of newer versions may read from followers (KIP-392).
        is_readable = state.role is Role.FOLLOWER and not reader.is_follower and reader.version >= WITH_RACK
        return Errors.NONE if is_readable else Errors.NOT_LEADER_OR_FOLLOWER
    if reader.is_follower and reader.follower not in state.replicas:
        with_epoch = fetch.current_leader_epoch != NO_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH if with_epoch else Errors.NOT_LEADER_OR_FOLLOWER
    return Errors.NONE


def _read(
    services: BrokerServices,
    requested: RequestedPartition,
    reader: FetchReader,
    *,
    refused: Errors,
    max_bytes: int,
    min_one: bool,
) -> PartitionData:
    fetch = requested.fetch
    error = refused if refused is not Errors.NONE else partition_error(services, requested, reader)
    if error is not Errors.NONE or requested.topic_partition is None:
        return _refused(services, requested, error, reader.version)
    partition = services.replicas.partitions[requested.topic_partition]
    log = partition.log
    if reader.version < WITH_ZSTD and log.config.compression_type == "zstd":
        return _refused(services, requested, Errors.UNSUPPORTED_COMPRESSION_TYPE, reader.version)
    if reader.converts and not log.config.message_downconversion_enable:
        return _refused(services, requested, Errors.UNSUPPORTED_VERSION, reader.version)
    preferred = _preferred_read_replica(services, partition, reader, fetch.fetch_offset)
    if preferred is not None:
        return _data(fetch.partition, partition, reader, preferred_read_replica=preferred)
    records: Buffer = b""
    diverging = EpochEndOffset()
    try:
        if fetch.last_fetched_epoch != NO_EPOCH:
            diverging = _divergence(services, log, fetch)
        if diverging.epoch == NO_EPOCH:
            records = log.read(
                fetch.fetch_offset,
                max(min(max_bytes, fetch.partition_max_bytes), 0),
                end_offset=reader.end_offset(log),
                min_one=min_one,
            )
            if reader.version >= FIRST_VERSION_WITH_WHOLE_BATCH and not _has_whole_batch(records):
                records = b""  # A consumer takes a part of a batch alone for one that it can never read.
            if reader.converts and len(records):
                records = down_convert(records, 0 if reader.version < WITH_FORMAT_1 else 1, fetch.fetch_offset)
    except ApiError as refused:
        return _refused(services, requested, refused.error, reader.version)
    except NotConvertible:
        return _refused(services, requested, Errors.UNSUPPORTED_COMPRESSION_TYPE, reader.version)
    except OSError as failure:
        return _refused(services, requested, services.replicas.storage_error(partition, failure).error, reader.version)
    except (CorruptRecord, InvalidRecord) as corrupt:
        logger.error("a damaged log cannot be read", partition=str(requested.topic_partition), why=str(corrupt))
        return _refused(services, requested, Errors.CORRUPT_MESSAGE, reader.version)
    return _data(fetch.partition, partition, reader, records=bytes(records), diverging=diverging)


def _has_whole_batch(records: Buffer) -> bool:
    size = size_of_first(records)
    return size is not None and size <= len(records)


def _preferred_read_replica(
    services: BrokerServices, partition: Partition, reader: FetchReader, fetch_offset: int
) -> int | None:
    if not reader.rack or not partition.is_leader:
        return None
    snapshot = services.metadata.snapshot

    def rack_of(broker: int) -> str | None:
        is_reachable = snapshot.endpoint(broker, reader.listener) is not None
        return snapshot.live_brokers[broker].rack if is_reachable else None

    return preferred_read_replica(
        partition, rack=reader.rack, fetch_offset=fetch_offset, rack_of=rack_of, now_ms=services.clock.monotonic_ms()
    )


def _data(
    index: int,
    partition: Partition,
    reader: FetchReader,
    *,
    records: bytes = b"",
    diverging: EpochEndOffset = NO_DIVERGENCE,
    preferred_read_replica: int = NO_REPLICA,
) -> PartitionData:
    log = partition.log
    return PartitionData(
        partition_index=index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=() if reader.is_read_committed else None,
        preferred_read_replica=preferred_read_replica,
        records=records,
    )


def _divergence(services: BrokerServices, log: PartitionLog, fetch: FetchPartition) -> EpochEndOffset:
    """Return where the sender's last leader epoch ends in this log, if that is before its own end (KIP-595).

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE, the log does not have the epoch.
    """
    end = epoch_end(services, log, fetch.last_fetched_epoch)
    if end.epoch == UNDEFINED_EPOCH or end.end_offset == UNDEFINED_EPOCH_OFFSET:
        raise ApiError(Errors.OFFSET_OUT_OF_RANGE, f"no leader epoch up to {fetch.last_fetched_epoch} has an end here")
    if fetch.fetch_offset < log.log_start_offset:
        raise ApiError(Errors.OFFSET_OUT_OF_RANGE, f"{fetch.fetch_offset} is before {log.log_start_offset}")
    if end.end_offset < fetch.fetch_offset or end.epoch < fetch.last_fetched_epoch:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return EpochEndOffset()


def _refused(services: BrokerServices, requested: RequestedPartition, error: Errors, version: int) -> PartitionData:
    if error is Errors.KAFKA_STORAGE_ERROR and version < WITH_STORAGE_ERROR:
        error = Errors.NOT_LEADER_OR_FOLLOWER  # consumers of these versions would not try again
    current = LeaderIdAndEpoch()
    if version >= WITH_LEADER_HINTS and error in _WRONG_LEADER and requested.topic_partition is not None:
        current = current_leader(services, requested.topic_partition)
    return PartitionData(
        partition_index=requested.fetch.partition,
        error_code=error,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        current_leader=current,
        records=b"",
    )
