"""OffsetFetch (key 9, versions 0 to 9): the committed offsets of groups.

Version 0 reads them from ZooKeeper. Since version 2 a request may ask for all partitions, since version 8 for many
groups (KIP-709). Mirrors `KafkaApis.handleOffsetFetchRequest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

import structlog

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.coordinator.group.group_coordinator import FetchedOffset
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from understudy.foundation.zk.consumer_offsets import is_path_component
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaApis")

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)

FIRST_VERSION_WITH_ERROR: Final = 2
FIRST_VERSION_WITH_GROUPS: Final = 8
NOTHING: Final = OffsetAndMetadata(offset=-1)
"""Answer for a partition without a committed offset."""


class _Fetched(NamedTuple):
    """The offsets of one group, by topic; or why there are none."""

    error: Errors
    topics: Mapping[str, Mapping[int, FetchedOffset]]


async def handle(services: BrokerServices, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    version = context.api_version
    if version >= FIRST_VERSION_WITH_GROUPS:
        groups = []
        for group in request.groups:
            asked = None if group.topics is None else [(topic.name, topic.partition_indexes) for topic in group.topics]
            groups.append(_of_group(group.group_id, _fetch(services, group.group_id, asked, request.require_stable)))
            await asyncio.sleep(0)
        return OffsetFetchResponse(groups=tuple(groups))
    asked = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    if version == 0:
        fetched = await _from_zookeeper(services, request.group_id, asked or [])
    else:
        fetched = _fetch(services, request.group_id, asked, request.require_stable)
    if version < FIRST_VERSION_WITH_ERROR and fetched.error is not Errors.NONE:
        fetched = _Fetched(Errors.NONE, _everywhere(asked or [], fetched.error))
    return OffsetFetchResponse(
        error_code=fetched.error,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=name,
                partitions=tuple(
                    _partition(OffsetFetchResponsePartition, index, each) for index, each in offsets.items()
                ),
            )
            for name, offsets in fetched.topics.items()
        ),
    )


def _fetch(
    services: BrokerServices, group_id: str, asked: list[tuple[str, tuple[int, ...]]] | None, require_stable: bool
) -> _Fetched:
    partitions = (
        None if asked is None else [TopicPartition(name, index) for name, indexes in asked for index in indexes]
    )
    error, offsets = services.groups.fetch_offsets(group_id, partitions, require_stable=require_stable)
    topics: dict[str, dict[int, FetchedOffset]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, {})[index] = offset
    return _Fetched(error, topics)


def _everywhere(asked: list[tuple[str, tuple[int, ...]]], error: Errors) -> dict[str, dict[int, FetchedOffset]]:
    return {name: dict.fromkeys(indexes, FetchedOffset(None, error)) for name, indexes in asked}


async def _from_zookeeper(
    services: BrokerServices, group_id: str, asked: list[tuple[str, tuple[int, ...]]]
) -> _Fetched:
    topics = _everywhere(asked, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    for name, indexes in asked:
        for index in indexes:
            at = TopicPartition(name, index)
            if services.metadata.snapshot.partition(name, index) is None or not is_path_component(group_id):
                continue
            try:
                offset = await services.zk().consumer_offsets.read(group_id, at)
            except (SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
                log.error("no offset from ZooKeeper", group=group_id, partition=str(at), why=str(failure))
                topics[name][index] = FetchedOffset(None, Errors.UNKNOWN_SERVER_ERROR)
                continue
            if offset is not None:
                topics[name][index] = FetchedOffset(OffsetAndMetadata(offset))
    return _Fetched(Errors.NONE, topics)


def _of_group(group_id: str, fetched: _Fetched) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=fetched.error,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=name,
                partitions=tuple(
                    _partition(OffsetFetchResponsePartitions, index, each) for index, each in offsets.items()
                ),
            )
            for name, offsets in fetched.topics.items()
        ),
    )


def _partition(kind: type[P], index: int, fetched: FetchedOffset) -> P:
    """Return the answer for one partition, in the class that the request's version has for it."""
    value = fetched.value or NOTHING
    return kind(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=fetched.error,
    )


SERVES = Serves(request=OffsetFetchRequest, versions=(0, 9), handle=handle)
