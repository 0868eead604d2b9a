"""OffsetFetch (key 9, versions 0 to 9): the committed offsets of groups.

Version 0 reads them from ZooKeeper. Since version 2 a request may ask for all partitions, since version 8 for many
groups (KIP-709). Mirrors `KafkaApis.handleOffsetFetchRequest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

import structlog

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.coordinator.group.group_coordinator import FetchedOffset
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from understudy.foundation.wire.nested_topics import nested
from understudy.foundation.zk.consumer_offsets import is_path_component
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaApis")

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)

FIRST_VERSION_WITH_ERROR: Final = 2
FIRST_VERSION_WITH_GROUPS: Final = 8
NOTHING: Final = OffsetAndMetadata(offset=-1)
"""Answer for a partition without a committed offset."""


async def handle(services: BrokerServices, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    version = context.api_version
    fetch = partial(services.groups.fetch_offsets, require_stable=request.require_stable)
    if version >= FIRST_VERSION_WITH_GROUPS:
        groups = []
        for group in request.groups:
            error, offsets = fetch(group.group_id, _named(group.topics))
            found = nested(OffsetFetchResponseTopics, _answers(OffsetFetchResponsePartitions, offsets))
            groups.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=error, topics=found))
            await asyncio.sleep(0)
        return OffsetFetchResponse(groups=tuple(groups))
    asked = _named(request.topics)
    if version == 0:
        error, offsets = Errors.NONE, await _from_zookeeper(services, request.group_id, asked or [])
    else:
        error, offsets = fetch(request.group_id, asked)
    if version < FIRST_VERSION_WITH_ERROR:
        # As Kafka's `GroupCoordinatorAdapter`, which answers a refusal with no topics: version 1 does not show it.
        error = Errors.NONE
    topics = nested(OffsetFetchResponseTopic, _answers(OffsetFetchResponsePartition, offsets))
    return OffsetFetchResponse(error_code=error, topics=topics)


def _named(
    topics: Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
) -> list[TopicPartition] | None:
    """Return the partitions that a request names; None if it asks for all."""
    if topics is None:
        return None
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]


async def _from_zookeeper(
    services: BrokerServices, group_id: str, asked: Iterable[TopicPartition]
) -> dict[TopicPartition, FetchedOffset]:
    offsets = dict.fromkeys(asked, FetchedOffset(None, Errors.UNKNOWN_TOPIC_OR_PARTITION))
    for at in offsets:
        if services.metadata.snapshot.partition(*at) is None or not is_path_component(group_id):
            continue
        try:
            offset = await services.zk().consumer_offsets.read(group_id, at)
        except (SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
            log.error("no offset from ZooKeeper", group=group_id, partition=str(at), why=str(failure))
            offsets[at] = FetchedOffset(None, Errors.UNKNOWN_SERVER_ERROR)
            continue
        if offset is not None:
            offsets[at] = FetchedOffset(OffsetAndMetadata(offset))
    return offsets


def _answers(kind: type[P], offsets: Mapping[TopicPartition, FetchedOffset]) -> dict[TopicPartition, P]:
    """Return the answers for all partitions, in the class that the request's version has for them."""
    return {
        at: kind(
            partition_index=at.partition,
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            metadata=value.metadata,
            error_code=fetched.error,
        )
        for at, fetched in offsets.items()
        for value in (fetched.value or NOTHING,)
    }


SERVES = Serves(request=OffsetFetchRequest, versions=(0, 9), handle=handle)
