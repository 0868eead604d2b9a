"""Fetch (key 1, versions 0 to 17): a follower, or a consumer, asks this leader for records.

Logs are empty in this milestone, so a good Fetch waits for `max_wait_ms` and brings nothing; what it does bring is
knowledge: a follower's Fetch tells its leader how far it has come (IS-1). A partition in error is answered at once
(BK-13), and a waiting Fetch looks again when a control request changes what is led here. Every answer has session id 0,
which opens no session; a Fetch that goes on in one is refused, and every other is a full one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from brokers.replication.partition import LOG_END_OFFSET, Partition
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
FIRST_VERSION_BY_TOPIC_ID = 13
FIRST_VERSION_WITH_REPLICA_STATE = 15
FULL_FETCH_EPOCHS = (0, -1)
"""Of a session: begin one, or have none. With every other the request names only what has changed since the last."""
MAX_WAIT_MS = 60_000
"""However long a client wants to wait, it hears from us after this."""


class Wanted(NamedTuple):
    """One partition of a Fetch; `topic` is None where its id is unknown."""

    topic: str | None
    topic_id: TopicId
    asked: FetchPartition


async def handle(services: BrokerServices, request: FetchRequest, context: RequestContext) -> FetchResponse:
    by_state = context.api_version >= FIRST_VERSION_WITH_REPLICA_STATE
    follower = request.replica_state.replica_id if by_state else request.replica_id
    if request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=Errors.FETCH_SESSION_ID_NOT_FOUND)
    wanted = tuple(_wanted(services, request, context))
    errors = [verdict(services, each, follower) for each in wanted]
    if follower >= 0:
        _note_progress(services, wanted, errors, follower)
    if wanted and request.min_bytes > 0 and not any(errors):
        errors = await _wait(services, wanted, follower, min(request.max_wait_ms, MAX_WAIT_MS))
    return FetchResponse(responses=tuple(_responses(wanted, errors, context.api_version)))


def _wanted(services: BrokerServices, request: FetchRequest, context: RequestContext) -> Iterator[Wanted]:
    names = services.metadata.snapshot.topic_names
    by_id = context.api_version >= FIRST_VERSION_BY_TOPIC_ID
    for topic in request.topics:
        name = names.get(topic.topic_id) if by_id else topic.topic
        for partition in topic.partitions:
            yield Wanted(name, topic.topic_id, partition)


def verdict(services: BrokerServices, wanted: Wanted, follower: int) -> Errors:
    """BK-13: whether this broker may answer for the partition, at the leader epoch it is asked at."""
    if wanted.topic is None:
        return Errors.UNKNOWN_TOPIC_ID
    topic_partition = TopicPartition(wanted.topic, wanted.asked.partition)
    if services.metadata.snapshot.partition(*topic_partition) is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    partition = services.replicas.partitions.get(topic_partition)
    if partition is None:
        return Errors.NOT_LEADER_OR_FOLLOWER
    if NO_TOPIC_ID not in (wanted.topic_id, partition.topic_id) and wanted.topic_id != partition.topic_id:
        return Errors.INCONSISTENT_TOPIC_ID
    return _epoch_error(services, partition, wanted.asked.current_leader_epoch) or _leader_error(
        partition, wanted, follower
    )


def _epoch_error(services: BrokerServices, partition: Partition, offered: int) -> Errors:
    if offered == NO_EPOCH or offered == partition.leader_epoch:
        return Errors.NONE
    if offered > partition.leader_epoch:
        return Errors.UNKNOWN_LEADER_EPOCH
    what = f"Fetch {partition.topic_partition}"
    if services.fences.record_hit(Fence.FETCH_LEADER_EPOCH, what=what, offered=offered, known=partition.leader_epoch):
        return Errors.FENCED_LEADER_EPOCH
    return Errors.NONE


def _leader_error(partition: Partition, wanted: Wanted, follower: int) -> Errors:
    if not partition.is_leader:
        return Errors.NOT_LEADER_OR_FOLLOWER
    if follower >= 0 and follower not in partition.replicas:
        with_epoch = wanted.asked.current_leader_epoch != NO_EPOCH
        return Errors.UNKNOWN_LEADER_EPOCH if with_epoch else Errors.NOT_LEADER_OR_FOLLOWER
    if wanted.asked.fetch_offset != LOG_END_OFFSET:
        return Errors.OFFSET_OUT_OF_RANGE
    return Errors.NONE


def _note_progress(services: BrokerServices, wanted: tuple[Wanted, ...], errors: list[Errors], follower: int) -> None:
    for each, error in zip(wanted, errors, strict=True):
        if error is Errors.NONE and each.topic is not None:
            partition = services.replicas.partitions[TopicPartition(each.topic, each.asked.partition)]
            epoch = each.asked.current_leader_epoch
            services.isr.fetched(partition, follower, each.asked.fetch_offset, leader_epoch=epoch)


async def _wait(services: BrokerServices, wanted: tuple[Wanted, ...], follower: int, max_wait_ms: int) -> list[Errors]:
    """Hold the answer back until there is something to say: an error, or the end of the wait."""
    errors = [Errors.NONE] * len(wanted)
    try:
        async with asyncio.timeout(max(max_wait_ms, 0) / 1000):
            while not any(errors):
                await services.replicas.wait_for_change()
                errors = [verdict(services, each, follower) for each in wanted]
    except TimeoutError:
        return errors
    return errors


def _responses(wanted: tuple[Wanted, ...], errors: list[Errors], version: int) -> Iterator[FetchableTopicResponse]:
    topics: dict[tuple[str, TopicId], list[PartitionData]] = {}
    for each, error in zip(wanted, errors, strict=True):
        name = "" if version >= FIRST_VERSION_BY_TOPIC_ID else each.topic or ""
        offset = LOG_END_OFFSET if error is Errors.NONE else -1
        topics.setdefault((name, each.topic_id), []).append(
            PartitionData(
                partition_index=each.asked.partition,
                error_code=error,
                high_watermark=offset,
                last_stable_offset=offset,
                log_start_offset=offset,
                records=b"",
            )
        )
    for (name, topic_id), partitions in topics.items():
        yield FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(partitions))


SERVES = Serves(request=FetchRequest, versions=(0, 17), handle=handle)
