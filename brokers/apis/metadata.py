"""Metadata (key 3, versions 0 to 12): brokers, controller, topics and their leaders, from the metadata cache (MC-3).

In version 0 an empty list stands for all topics, and replicas without an address are left out; since version 1 null
stands for all. Version 12 may name topics by id, and then only those are answered. A topic that is named twice is
answered once. A topic that does not exist is created if the client and `auto.create.topics.enable` allow it (TC-9).
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from understudy.brokers.apis import auto_creation
from understudy.brokers.apis.authorized_operations import EVERY_CLUSTER_OPERATION, EVERY_TOPIC_OPERATION, NOT_ASKED
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
from understudy.brokers.metadata.topic_names import is_internal, why_invalid
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataPartitionState

NO_LEADER = -1
FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
FIRST_VERSION_BY_TOPIC_ID = 12


async def handle(services: BrokerServices, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    snapshot = services.metadata.snapshot
    wants_all = request.topics is None or (context.api_version == 0 and not request.topics)
    if wants_all:
        topics = tuple(_known_topic(snapshot, topic, context) for topic in sorted(snapshot.topics))
    else:
        topics_named = request.topics or ()
        if context.api_version < FIRST_VERSION_BY_TOPIC_ID and any(not _is_name(topic) for topic in topics_named):
            refused = (
                MetadataResponseTopic(error_code=Errors.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
                for topic in topics_named
            )
            return MetadataResponse(topics=tuple(refused))
        asked = tuple(dict.fromkeys(topics_named))
        by_id = any(topic.topic_id != NO_TOPIC_ID for topic in asked)
        answered = tuple(topic for topic in asked if not by_id or topic.topic_id != NO_TOPIC_ID)
        may_create = request.allow_auto_topic_creation and services.config.auto_create_topics_enable and not by_id
        named = (topic.name for topic in answered if topic.name is not None and topic.name not in snapshot.topics)
        missing = dict.fromkeys(named) if may_create else {}
        created = await auto_creation.create(services, missing)
        rest = (topic for topic in answered if topic.name not in missing)
        topics = (*(_asked_topic(snapshot, topic, context) for topic in rest), *created)
    if request.include_topic_authorized_operations:
        topics = tuple(
            topic
            if topic.error_code == Errors.UNKNOWN_TOPIC_ID
            else replace(topic, topic_authorized_operations=EVERY_TOPIC_OPERATION)
            for topic in topics
        )
    return MetadataResponse(
        brokers=tuple(_brokers(snapshot, context.listener)),
        cluster_id=services.cluster_id,
        controller_id=-1 if snapshot.controller_id is None else snapshot.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            EVERY_CLUSTER_OPERATION if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _brokers(snapshot: MetadataSnapshot, listener: str) -> Iterator[MetadataResponseBroker]:
    for broker in sorted(snapshot.live_brokers):
        at = snapshot.endpoint(broker, listener)
        if at is not None:
            rack = snapshot.live_brokers[broker].rack
            yield MetadataResponseBroker(node_id=broker, host=at.host, port=at.port, rack=rack)


def _is_name(asked: MetadataRequestTopic) -> bool:
    """Whether a topic is named by its name alone. Versions 10 and 11 have a field for the id, but cannot answer by
    it."""
    return asked.name is not None and asked.topic_id == NO_TOPIC_ID


def _asked_topic(
    snapshot: MetadataSnapshot, asked: MetadataRequestTopic, context: RequestContext
) -> MetadataResponseTopic:
    by_id = asked.topic_id != NO_TOPIC_ID
    name = snapshot.topic_names.get(asked.topic_id) if by_id else asked.name
    if name is None:
        error = Errors.UNKNOWN_TOPIC_ID if by_id else Errors.INVALID_REQUEST
        return MetadataResponseTopic(error_code=error, topic_id=asked.topic_id)
    if name in snapshot.topics:
        return _known_topic(snapshot, name, context)
    error = Errors.UNKNOWN_TOPIC_OR_PARTITION if why_invalid(name) is None else Errors.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=is_internal(name))


def _known_topic(snapshot: MetadataSnapshot, topic: str, context: RequestContext) -> MetadataResponseTopic:
    states = snapshot.topics[topic]
    return MetadataResponseTopic(
        name=topic,
        topic_id=snapshot.topic_id(topic),
        is_internal=is_internal(topic),
        partitions=tuple(_partition(snapshot, states[index], context) for index in sorted(states)),
    )


def _partition(
    snapshot: MetadataSnapshot, state: UpdateMetadataPartitionState, context: RequestContext
) -> MetadataResponsePartition:
    error = _leader_error(snapshot, state.leader, context)
    replicas, isr = state.replicas, state.isr
    if context.api_version == 0:
        replicas = tuple(replica for replica in replicas if snapshot.endpoint(replica, context.listener))
        isr = tuple(member for member in isr if snapshot.endpoint(member, context.listener))
        if error is Errors.NONE and (len(replicas) < len(state.replicas) or len(isr) < len(state.isr)):
            error = Errors.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=state.partition_index,
        leader_id=NO_LEADER if error in (Errors.LEADER_NOT_AVAILABLE, Errors.LISTENER_NOT_FOUND) else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=state.offline_replicas,
    )


def _leader_error(snapshot: MetadataSnapshot, leader: int, context: RequestContext) -> Errors:
    if not snapshot.is_alive(leader):
        return Errors.LEADER_NOT_AVAILABLE
    if snapshot.endpoint(leader, context.listener) is not None:
        return Errors.NONE
    if context.api_version >= FIRST_VERSION_WITH_LISTENER_NOT_FOUND:
        return Errors.LISTENER_NOT_FOUND
    return Errors.LEADER_NOT_AVAILABLE


def without_creation(request: MetadataRequest) -> MetadataRequest:
    """Return the request without the automatic creation of topics."""
    return replace(request, allow_auto_topic_creation=False)


SERVES = Serves(request=MetadataRequest, versions=(0, 12), handle=handle, reading=without_creation)
