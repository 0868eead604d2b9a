"""Topics that come to be by being asked for. Mirrors `AutoTopicCreationManager` without forwarding.

Whichever broker is asked writes the topic itself, controller or not (TC-9), and answers LEADER_NOT_AVAILABLE: the client asks
again. Topics of Kafka's own are not made this way: these brokers coordinate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokers.apis import create_topics
from brokers.services import BrokerServices
from brokers.topic_names import CLUSTER_METADATA_TOPIC, is_internal, why_invalid
from foundation.cluster.errors import ApiError, Errors
from foundation.wire.messages.create_topics import CreatableTopic
from foundation.wire.messages.metadata import MetadataResponseTopic


async def create(services: BrokerServices, topics: Iterable[str]) -> tuple[MetadataResponseTopic, ...]:
    """Create each of `topics`, which this broker does not know, and say of each what a client has to hear."""
    return tuple(
        [
            MetadataResponseTopic(error_code=await _create(services, topic), name=topic, is_internal=is_internal(topic))
            for topic in topics
        ]
    )


async def _create(services: BrokerServices, topic: str) -> Errors:
    if why_invalid(topic) is not None:
        return Errors.INVALID_TOPIC_EXCEPTION
    if topic in services.topics_being_created or is_internal(topic) or topic == CLUSTER_METADATA_TOPIC:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    asked = CreatableTopic(
        name=topic,
        num_partitions=services.config.num_partitions,
        replication_factor=services.config.default_replication_factor,
    )
    services.topics_being_created.add(topic)
    try:
        outcome = await create_topics.create(services, asked, validate_only=False)
    finally:
        services.topics_being_created.discard(topic)
    if isinstance(outcome, ApiError) and outcome.error is not Errors.TOPIC_ALREADY_EXISTS:
        return outcome.error
    return Errors.LEADER_NOT_AVAILABLE
