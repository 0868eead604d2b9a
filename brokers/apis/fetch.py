"""Fetch (key 1, versions 0 to 17): a follower, or a consumer, reads records from a leader.

No Produce is served yet, so logs are empty and a good Fetch waits for `max_wait_ms` and returns no records. What it
brings is progress: the Fetch of a follower shows its leader how far it has the log (IS-1). A partition in error is
answered at once (BK-13); a waiting Fetch is judged again when one of its partitions changes. No fetch session is
opened, so every answer has session id 0, and a Fetch that continues one is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from brokers.replication.partition import Partition
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.eventlog.fences import Fence
from foundation.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

NO_EPOCH = -1
NO_OFFSET = -1
FIRST_VERSION_BY_TOPIC_ID = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FULL_FETCH_EPOCHS = (0, -1)
"""The session epochs that open a session, or use none; every other names only the changes since the last Fetch."""
MAX_WAIT_MS = 60_000
"""The longest that a Fetch waits, whatever `max_wait_ms` the client sends."""


class RequestedPartition(NamedTuple):
    """One partition of a Fetch; `topic` is None where its topic id is unknown."""

    topic: str | None
    topic_id: TopicId
    fetch: FetchPartition


async def handle(services: BrokerServices, request: FetchRequest, context: RequestContext) -> FetchResponse:
    by_state = context.api_version >= FIRST_VERSION_WITH_REPLICA_STATE
    follower = request.replica_state.replica_id if by_state else request.replica_id
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=Errors.FETCH_SESSION_ID_NOT_FOUND)
    requested = tuple(_requested_partitions(services, request, context))
    errors = [partition_error(services, each, follower) for each in requested]
    if follower >= 0:
        _note_progress(services, requested, errors, follower)
    if requested and request.min_bytes > 0 and not any(errors):
        errors = await _wait(services, requested, follower, min(request.max_wait_ms, MAX_WAIT_MS))
    return FetchResponse(responses=tuple(_responses(services, requested, errors, context.api_version)))


def _requested_partitions(
    services: BrokerServices, request: FetchRequest, context: RequestContext
) -> Iterator[RequestedPartition]:
    names = services.metadata.snapshot.topic_names
    by_id = context.api_version >= FIRST_VERSION_BY_TOPIC_ID
    for topic in request.topics:
        name = names.get(topic.topic_id) if by_id else topic.topic
        for partition in topic.partitions:
            yield RequestedPartition(name, topic.topic_id, partition)


def partition_error(services: BrokerServices, requested: RequestedPartition, follower: int) -> Errors:
    """The error that one partition of a Fetch is answered with, or NONE (BK-13)."""
    if requested.topic is None:
        return Errors.UNKNOWN_TOPIC_ID
    topic_partition = TopicPartition(requested.topic, requested.fetch.partition)
    if services.metadata.snapshot.partition(*topic_partition) is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    partition = services.replicas.partitions.get(topic_partition)
    if partition is None:
        return Errors.NOT_LEADER_OR_FOLLOWER
    known_id = partition.topic_id
    if NO_TOPIC_ID not in (requested.topic_id, known_id) and requested.topic_id != known_id:
        return Errors.INCONSISTENT_TOPIC_ID
    error = _epoch_error(services, partition, requested.fetch.current_leader_epoch)
    if error is not Errors.NONE:
        return error
    return _leader_error(partition, requested.fetch, follower)


def _epoch_error(services: BrokerServices, partition: Partition, offered: int) -> Errors:
    known = partition.leader_epoch
    if offered in (NO_EPOCH, known):
        return Errors.NONE
    if offered > known:
        return Errors.UNKNOWN_LEADER_EPOCH
    what = f"Fetch {partition.topic_partition}"
    if services.fences.record_hit(Fence.FETCH_LEADER_EPOCH, what=what, offered=offered, known=known):
        return Errors.FENCED_LEADER_EPOCH
    return Errors.NONE


def _leader_error(partition: Partition, fetch: FetchPartition, follower: int) -> Errors:
    if not partition.is_leader:
        return Errors.NOT_LEADER_OR_FOLLOWER
    if follower >= 0 and follower not in partition.state.replicas:
        with_epoch = fetch.current_leader_epoch != NO_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH if with_epoch else Errors.NOT_LEADER_OR_FOLLOWER
    if not partition.log.log_start_offset <= fetch.fetch_offset <= partition.log.log_end_offset:
        return Errors.OFFSET_OUT_OF_RANGE
    return Errors.NONE


def _note_progress(
    services: BrokerServices, requested: tuple[RequestedPartition, ...], errors: list[Errors], follower: int
) -> None:
    for each, error in zip(requested, errors, strict=True):
        if error is Errors.NONE and each.topic is not None:
            partition = services.replicas.partitions[TopicPartition(each.topic, each.fetch.partition)]
            epoch = each.fetch.current_leader_epoch
            services.isr.follower_fetched(partition, follower, each.fetch.fetch_offset, leader_epoch=epoch)


async def _wait(
    services: BrokerServices, requested: tuple[RequestedPartition, ...], follower: int, max_wait_ms: int
) -> list[Errors]:
    """Wait until a partition is in error, or for `max_wait_ms`; the errors. Mirrors `DelayedFetch`.

    A Fetch that finds no room in the purgatory does not wait.
    """

    def judged() -> list[Errors]:
        return [partition_error(services, each, follower) for each in requested]

    errors = [Errors.NONE] * len(requested)
    purgatory = services.replicas.delayed_fetches
    if not purgatory.has_room_for(len(requested)):
        return errors
    partitions = (TopicPartition(each.topic, each.fetch.partition) for each in requested if each.topic is not None)
    with purgatory.watch(partitions) as delayed_fetch:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(max_wait_ms, 0) / 1000):
                while not any(errors):
                    await delayed_fetch.wait()
                    errors = judged()
        if delayed_fetch.is_woken:
            errors = judged()  # a partition has changed at the very end of the wait
    return errors


def _responses(
    services: BrokerServices, requested: tuple[RequestedPartition, ...], errors: list[Errors], version: int
) -> Iterator[FetchableTopicResponse]:
    topics: dict[tuple[str, TopicId], list[PartitionData]] = {}
    for each, error in zip(requested, errors, strict=True):
        name = "" if version >= FIRST_VERSION_BY_TOPIC_ID else each.topic or ""
        topics.setdefault((name, each.topic_id), []).append(_partition_data(services, each, error))
    for (name, topic_id), partitions in topics.items():
        yield FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(partitions))


def _partition_data(services: BrokerServices, requested: RequestedPartition, error: Errors) -> PartitionData:
    index = requested.fetch.partition
    if error is not Errors.NONE or requested.topic is None:
        return PartitionData(
            partition_index=index,
            error_code=error,
            high_watermark=NO_OFFSET,
            last_stable_offset=NO_OFFSET,
            log_start_offset=NO_OFFSET,
            records=b"",
        )
    log = services.replicas.partitions[TopicPartition(requested.topic, index)].log
    return PartitionData(
        partition_index=index,
        error_code=Errors.NONE,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        records=b"",
    )


SERVES = Serves(request=FetchRequest, versions=(0, 17), handle=handle)
