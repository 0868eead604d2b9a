"""Fetch (key 1, versions 0 to 17): a follower, or a consumer, reads records.

A follower reads up to the leader's log end, and its Fetch shows the leader how far it has the log (IS-1). A consumer
reads up to the high watermark, or up to the last stable offset. A Fetch that finds fewer than `min_bytes` waits for
`max_wait_ms`, and is judged again when one of its partitions changes; one with a partition in error is answered at
once (BK-13). A follower whose log has another end of its last leader epoch is sent the end to truncate to (KIP-595).
No fetch session is opened, so every answer has session id 0, and a Fetch that continues one is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import structlog

from brokers.apis.leader_hints import current_leader, leader_addresses
from brokers.apis.partition_access import NO_EPOCH, epoch_error
from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from brokers.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from brokers.log.partition_log import PartitionLog
from brokers.replication.partition import Role
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.cluster.leadership import NO_LEADER
from foundation.records.batch import size_of_first
from foundation.records.errors import CorruptRecord
from foundation.records.varint import Buffer
from foundation.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

logger: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaManager")

_WRONG_LEADER = (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH)
NO_OFFSET = -1
READ_COMMITTED = 1
FIRST_VERSION_WITH_WHOLE_BATCH = 3
WITH_ZSTD = 10
"""The first version whose consumers read zstd (KIP-110)."""
WITH_RACK = 11
FIRST_VERSION_BY_TOPIC_ID = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
WITH_LEADER_HINTS = 16
FULL_FETCH_EPOCHS = (0, -1)
"""The session epochs that open a session, or use none; every other names only the changes since the last Fetch."""
MAX_WAIT_MS = 60_000
"""The longest that a Fetch waits, whatever `max_wait_ms` the client sends."""


class RequestedPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a Fetch; `topic_partition` is None where its topic id is unknown.

    `gc=False` and one `TopicPartition` for all lookups: a follower fetches up to 33,000 partitions with each request.
    """

    topic_partition: TopicPartition | None
    topic_id: TopicId
    fetch: FetchPartition


class Reader(NamedTuple):
    """The sender of a Fetch, and what it may read."""

    follower: int
    """Its broker id; negative for a consumer."""
    version: int
    is_read_committed: bool
    max_bytes: int

    @property
    def is_follower(self) -> bool:
        return self.follower >= 0

    def end_offset(self, log: PartitionLog) -> int:
        """The offset that it may read up to."""
        if self.is_follower:
            return log.log_end_offset
        return log.last_stable_offset if self.is_read_committed else log.high_watermark


async def handle(services: BrokerServices, request: FetchRequest, context: RequestContext) -> FetchResponse:
    by_state = context.api_version >= FIRST_VERSION_WITH_REPLICA_STATE
    reader = Reader(
        follower=request.replica_state.replica_id if by_state else request.replica_id,
        version=context.api_version,
        is_read_committed=request.isolation_level == READ_COMMITTED,
        max_bytes=min(request.max_bytes, services.config.fetch_max_bytes),
    )
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=Errors.FETCH_SESSION_ID_NOT_FOUND)
    requested = tuple(_requested_partitions(services, request, context))
    found = _read_all(services, requested, reader)
    if reader.is_follower:
        _note_progress(services, requested, found, reader.follower)
        # Its progress may have raised high watermarks, which this answer is to bring.
        found = _with_offsets(services, requested, found)
    if requested and not _is_complete(found, request.min_bytes):
        found = await _wait(services, requested, found, reader, request)
    return FetchResponse(
        responses=tuple(_responses(requested, found, context.api_version)),
        node_endpoints=_endpoints(services, found, context),
    )


def _is_complete(found: Sequence[PartitionData], min_bytes: int) -> bool:
    """Whether an answer is to be sent at once: it has an error, a divergence, or `min_bytes`."""
    size = 0
    for data in found:
        if data.error_code != Errors.NONE or data.diverging_epoch.epoch != NO_EPOCH:
            return True
        size += len(data.records or b"")
    return size >= min_bytes


def _requested_partitions(
    services: BrokerServices, request: FetchRequest, context: RequestContext
) -> Iterator[RequestedPartition]:
    names = services.metadata.snapshot.topic_names
    by_id = context.api_version >= FIRST_VERSION_BY_TOPIC_ID
    for topic in request.topics:
        name = names.get(topic.topic_id) if by_id else topic.topic
        for partition in topic.partitions:
            topic_partition = None if name is None else TopicPartition(name, partition.partition)
            yield RequestedPartition(topic_partition, topic.topic_id, partition)


def partition_error(services: BrokerServices, requested: RequestedPartition, reader: Reader) -> Errors:
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


# ------------------------------------------------------------------ reading


def _read_all(
    services: BrokerServices, requested: Sequence[RequestedPartition], reader: Reader
) -> tuple[PartitionData, ...]:
    """Read every partition, until the answer has `max_bytes`.

    The first batch of the first partition that has one is sent even if it is larger than a limit: otherwise its reader
    would never get past it (KIP-74). Versions up to 2 keep to the limits.
    """
    found = []
    left, min_one = reader.max_bytes, reader.version >= FIRST_VERSION_WITH_WHOLE_BATCH
    for each in requested:
        data = _read(services, each, reader, max_bytes=left, min_one=min_one)
        size = len(data.records or b"")
        if size:
            left, min_one = max(left - size, 0), False
        found.append(data)
    return tuple(found)


def _read(
    services: BrokerServices, requested: RequestedPartition, reader: Reader, *, max_bytes: int, min_one: bool
) -> PartitionData:
    index, fetch = requested.fetch.partition, requested.fetch
    error = partition_error(services, requested, reader)
    if error is not Errors.NONE or requested.topic_partition is None:
        return _refused(services, requested, error, reader.version)
    partition = services.replicas.partitions[requested.topic_partition]
    log = partition.log
    if reader.version < WITH_ZSTD and log.config.compression_type == "zstd":
        return _refused(services, requested, Errors.UNSUPPORTED_COMPRESSION_TYPE, reader.version)
    records: Buffer = b""
    diverging = EpochEndOffset()
    try:
        if fetch.last_fetched_epoch != NO_EPOCH:
            diverging = _divergence(log, fetch)
        if diverging.epoch == NO_EPOCH:
            records = log.read(
                fetch.fetch_offset,
                max(min(max_bytes, fetch.partition_max_bytes), 0),
                end_offset=reader.end_offset(log),
                min_one=min_one,
            )
            if reader.version >= FIRST_VERSION_WITH_WHOLE_BATCH and not _has_whole_batch(records):
                records = b""  # A consumer takes a part of a batch alone for one that it can never read.
    except ApiError as refused:
        return _refused(services, requested, refused.error, reader.version)
    except OSError as failure:
        return _refused(services, requested, services.replicas.storage_error(partition, failure).error, reader.version)
    except CorruptRecord as corrupt:
        logger.error("a damaged log cannot be read", partition=str(requested.topic_partition), why=str(corrupt))
        return _refused(services, requested, Errors.CORRUPT_MESSAGE, reader.version)
    return PartitionData(
        partition_index=index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=() if reader.is_read_committed else None,
        records=bytes(records),
    )


def _divergence(log: PartitionLog, fetch: FetchPartition) -> EpochEndOffset:
    """Return where the sender's last leader epoch ends in this log, if that is before its own end (KIP-595).

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE, the log does not have the epoch.
    """
    end = log.epochs.end_offset_for(fetch.last_fetched_epoch, log.log_end_offset)
    if end.epoch == UNDEFINED_EPOCH or end.end_offset == UNDEFINED_EPOCH_OFFSET:
        raise ApiError(Errors.OFFSET_OUT_OF_RANGE, f"no leader epoch up to {fetch.last_fetched_epoch} has an end here")
    if fetch.fetch_offset < log.log_start_offset:
        raise ApiError(Errors.OFFSET_OUT_OF_RANGE, f"{fetch.fetch_offset} is before {log.log_start_offset}")
    if end.end_offset < fetch.fetch_offset or end.epoch < fetch.last_fetched_epoch:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return EpochEndOffset()


def _note_progress(
    services: BrokerServices,
    requested: Sequence[RequestedPartition],
    found: Sequence[PartitionData],
    follower: int,
) -> None:
    partitions, isr = services.replicas.partitions, services.isr
    for each, data in zip(requested, found, strict=True):
        is_read = data.error_code == Errors.NONE and data.diverging_epoch.epoch == NO_EPOCH
        if is_read and each.topic_partition is not None:
            isr.follower_fetched(
                partitions[each.topic_partition],
                follower,
                each.fetch.fetch_offset,
                leader_epoch=each.fetch.current_leader_epoch,
                log_start_offset=each.fetch.log_start_offset,
            )


def _with_offsets(
    services: BrokerServices, requested: Sequence[RequestedPartition], found: Sequence[PartitionData]
) -> tuple[PartitionData, ...]:
    """Return what was found with the high watermarks as they are now."""
    partitions = services.replicas.partitions
    renewed = []
    for each, data in zip(requested, found, strict=True):
        partition = None if each.topic_partition is None else partitions.get(each.topic_partition)
        if data.error_code == Errors.NONE and partition is not None:
            log = partition.log
            if log.high_watermark != data.high_watermark:
                data = msgspec.structs.replace(
                    data, high_watermark=log.high_watermark, last_stable_offset=log.last_stable_offset
                )
        renewed.append(data)
    return tuple(renewed)


async def _wait(
    services: BrokerServices,
    requested: Sequence[RequestedPartition],
    found: tuple[PartitionData, ...],
    reader: Reader,
    request: FetchRequest,
) -> tuple[PartitionData, ...]:
    """Wait until the answer is complete, or for `max_wait_ms`; return the answer. Mirrors `DelayedFetch`.

    A Fetch that finds no room in the purgatory does not wait.
    """
    purgatory = services.replicas.delayed_fetches
    if not purgatory.has_room_for(len(requested)):
        return found
    partitions = [each.topic_partition for each in requested if each.topic_partition is not None]
    wait_ms = min(max(request.max_wait_ms, 0), MAX_WAIT_MS)
    with purgatory.watch(partitions) as delayed_fetch:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                while not _is_complete(found, request.min_bytes):
                    await delayed_fetch.wait()
                    found = _read_all(services, requested, reader)
        if delayed_fetch.is_woken:
            found = _read_all(services, requested, reader)  # a partition has changed at the very end of the wait
    return _with_offsets(services, requested, found)


def _has_whole_batch(records: Buffer) -> bool:
    size = size_of_first(records)
    return size is not None and size <= len(records)


# ------------------------------------------------------------------ answers


def _responses(
    requested: Sequence[RequestedPartition], found: Sequence[PartitionData], version: int
) -> Iterator[FetchableTopicResponse]:
    """The answers in the order of the request, which clients rely on: a topic may be named several times."""
    by_name = version < FIRST_VERSION_BY_TOPIC_ID
    topics: list[tuple[tuple[str, TopicId], list[PartitionData]]] = []
    for each, data in zip(requested, found, strict=True):
        topic_partition = each.topic_partition
        topic = (topic_partition.topic if by_name and topic_partition is not None else "", each.topic_id)
        if not topics or topics[-1][0] != topic:
            topics.append((topic, []))
        topics[-1][1].append(data)
    for (name, topic_id), answers in topics:
        yield FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(answers))


def _refused(services: BrokerServices, requested: RequestedPartition, error: Errors, version: int) -> PartitionData:
    current = LeaderIdAndEpoch()
    if version >= WITH_LEADER_HINTS and error in _WRONG_LEADER and requested.topic_partition is not None:
        leader, leader_epoch = current_leader(services, requested.topic_partition)
        current = LeaderIdAndEpoch(leader_id=leader, leader_epoch=leader_epoch)
    return PartitionData(
        partition_index=requested.fetch.partition,
        error_code=error,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        current_leader=current,
        records=b"",
    )


def _endpoints(
    services: BrokerServices, found: Iterable[PartitionData], context: RequestContext
) -> tuple[NodeEndpoint, ...]:
    """The addresses of the leaders that errors name (KIP-951)."""
    leaders = {data.current_leader.leader_id for data in found if data.current_leader.leader_id != NO_LEADER}
    return tuple(
        NodeEndpoint(node_id=at.node_id, host=at.host, port=at.port, rack=at.rack)
        for at in leader_addresses(services, leaders, context.listener)
    )


SERVES = Serves(request=FetchRequest, versions=(0, 17), handle=handle)
