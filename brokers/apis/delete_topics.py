"""DeleteTopics (key 20, versions 0 to 6): starts the deletion of topics, on the controller's broker only.

The handler creates a marker in ZooKeeper for each; the controller is notified by its watch. The response is sent when
the topics have left this broker's metadata cache: they have no leaders any more, but their data and znodes may still
exist. REQUEST_TIMED_OUT says that they may still be deleted (TX-1). Version 3 has an error of its own if deletion is
disabled; version 6 can also name topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure

FIRST_VERSION_WITH_DELETION_DISABLED = 3
"""First version whose clients have the error TOPIC_DELETION_DISABLED."""

MARKED_AT_ONCE = 100
"""Maximum number of topics of one request that are marked at the same time."""


async def handle(
    services: BrokerServices, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    asked = request.topics or tuple(DeleteTopicState(name=name) for name in request.topic_names)
    refused = request_error(services, asked, context.api_version)
    if refused is not None:
        return _answer([(topic.name, topic.topic_id, refused) for topic in asked])
    named = [(name_of(services, topic), topic.topic_id) for topic in asked]
    errors = [topic_error(services, name, topic_id) for name, topic_id in named]
    deletable = {name: None for (name, _), error in zip(named, errors, strict=True) if name and error is Errors.NONE}
    results = await delete(services, list(deletable), timeout_ms=request.timeout_ms)
    # A topic may be named twice, by name and by id; Kafka always answers NONE for the second.
    return _answer(
        [
            (name, topic_id, results.get(name or "", error) if error is Errors.NONE else error)
            for (name, topic_id), error in zip(named, errors, strict=True)
        ]
    )


def request_error(services: BrokerServices, asked: Sequence[DeleteTopicState], version: int) -> Errors | None:
    """Return the error of the whole request, for every topic of it; None if there is none."""
    if not services.controller.is_active:
        return Errors.NOT_CONTROLLER
    if not services.config.delete_topic_enable:
        return (
            Errors.TOPIC_DELETION_DISABLED
            if version >= FIRST_VERSION_WITH_DELETION_DISABLED
            else Errors.INVALID_REQUEST
        )
    if any(topic.name is not None and topic.topic_id != NO_TOPIC_ID for topic in asked):
        return Errors.INVALID_REQUEST
    return None


def name_of(services: BrokerServices, topic: DeleteTopicState) -> str | None:
    """Return the topic's name. Ids are looked up at the controller: a topic that is being deleted has left the metadata
    cache already."""
    return topic.name if topic.topic_id == NO_TOPIC_ID else services.controller.topic_name(topic.topic_id)


def topic_error(services: BrokerServices, name: str | None, topic_id: TopicId) -> Errors:
    """Return the error of one topic; NONE if it can be marked."""
    if name is None:
        # Neither name nor id: Kafka answers that the client is not authorized.
        return Errors.TOPIC_AUTHORIZATION_FAILED if topic_id == NO_TOPIC_ID else Errors.UNKNOWN_TOPIC_ID
    return Errors.NONE if name in services.metadata.snapshot.topics else Errors.UNKNOWN_TOPIC_OR_PARTITION


async def delete(services: BrokerServices, topics: Sequence[str], *, timeout_ms: int) -> dict[str, Errors]:
    """Mark the topics, and wait until none of them is in the metadata cache."""
    results: dict[str, Errors] = {}
    for start in range(0, len(topics), MARKED_AT_ONCE):
        some = topics[start : start + MARKED_AT_ONCE]
        results |= zip(some, await asyncio.gather(*[_mark(services, topic) for topic in some]), strict=True)
    marked = [topic for topic, error in results.items() if error is Errors.NONE]
    await services.metadata.wait_until(
        lambda snapshot: snapshot.topics.keys().isdisjoint(marked), timeout_ms=timeout_ms
    )
    for topic in marked:
        if timeout_ms <= 0 or topic in services.metadata.snapshot.topics:
            results[topic] = Errors.REQUEST_TIMED_OUT
    return results


async def _mark(services: BrokerServices, topic: str) -> Errors:
    """Create the marker of `topic`. A topic that is marked already is no error."""
    zk = services.zk()
    try:
        if not await zk.topics.exists(topic):
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        await zk.topic_deletions.mark(topic)
    except (SessionLost, ZooKeeperFailure):
        return Errors.UNKNOWN_SERVER_ERROR
    return Errors.NONE


def _answer(results: Sequence[tuple[str | None, TopicId, Errors]]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(name=name, topic_id=topic_id, error_code=error) for name, topic_id, error in results
        )
    )


SERVES = Serves(request=DeleteTopicsRequest, versions=(0, 6), handle=handle, recorded=True)
