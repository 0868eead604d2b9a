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

import msgspec

from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from brokers.log.partition_log import PartitionLog
from brokers.replication.partition import LocalPartitionState, Role
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


class RequestedPartition(msgspec.Struct, frozen=True, gc=False):
    """One partition of a Fetch; `topic_partition` is None where its topic id is unknown.

    `gc=False` and one `TopicPartition` for all lookups: a follower fetches up to 33,000 partitions with each request.
    """

    topic_partition: TopicPartition | None
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
            topic_partition = None if name is None else TopicPartition(name, partition.partition)
            yield RequestedPartition(topic_partition, topic.topic_id, partition)


def partition_error(services: BrokerServices, requested: RequestedPartition, follower: int) -> Errors:
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
    if fetch.current_leader_epoch not in (state.leader_epoch, NO_EPOCH):
        error = _epoch_error(services, state, fetch.current_leader_epoch)
        if error is not Errors.NONE:
            return error
    if state.role is not Role.LEADER:
        return Errors.NOT_LEADER_OR_FOLLOWER
    if follower >= 0 and follower not in state.replicas:
        with_epoch = fetch.current_leader_epoch != NO_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH if with_epoch else Errors.NOT_LEADER_OR_FOLLOWER
    if not partition.log.log_start_offset <= fetch.fetch_offset <= partition.log.log_end_offset:
        return Errors.OFFSET_OUT_OF_RANGE
    return Errors.NONE


def _epoch_error(services: BrokerServices, state: LocalPartitionState, offered: int) -> Errors:
    """The error of a Fetch that names another leader epoch than this broker's."""
    known = state.leader_epoch
    if offered > known:
        return Errors.UNKNOWN_LEADER_EPOCH
    what = f"Fetch {state.topic_partition}"
    if services.fences.record_hit(Fence.FETCH_LEADER_EPOCH, what=what, offered=offered, known=known):
        return Errors.FENCED_LEADER_EPOCH
    return Errors.NONE


def _note_progress(
    services: BrokerServices, requested: tuple[RequestedPartition, ...], errors: list[Errors], follower: int
) -> None:
    partitions, isr = services.replicas.partitions, services.isr
    for each, error in zip(requested, errors, strict=True):
        if error is Errors.NONE and each.topic_partition is not None:
            epoch = each.fetch.current_leader_epoch
            isr.follower_fetched(
                partitions[each.topic_partition], follower, each.fetch.fetch_offset, leader_epoch=epoch
            )


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
    partitions = [each.topic_partition for each in requested if each.topic_partition is not None]
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
    partitions = services.replicas.partitions
    by_name = version < FIRST_VERSION_BY_TOPIC_ID
    topics: dict[tuple[str, TopicId], list[PartitionData]] = {}
    for each, error in zip(requested, errors, strict=True):
        topic_partition, index = each.topic_partition, each.fetch.partition
        name = topic_partition.topic if by_name and topic_partition is not None else ""
        if error is Errors.NONE and topic_partition is not None:
            data = _readable(index, partitions[topic_partition].log)
        else:
            data = _refused(index, error)
        topics.setdefault((name, each.topic_id), []).append(data)
    for (name, topic_id), answers in topics.items():
        yield FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(answers))


def _readable(index: int, log: PartitionLog) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=Errors.NONE,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        records=b"",
    )


def _refused(index: int, error: Errors) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET,
        records=b"",
    )


SERVES = Serves(request=FetchRequest, versions=(0, 17), handle=handle)
