"""Creates topics whose metadata was requested. Mirrors `AutoTopicCreationManager` without forwarding.

The broker that receives the request writes the topic itself, controller or not (TC-9), and answers
LEADER_NOT_AVAILABLE, after which clients request the metadata again. The coordinators' topics have settings of their
own (TC-10). `__consumer_offsets` gets as many replicas as there are live brokers if these are fewer than
`offsets.topic.replication.factor`: with Kafka's default of 3, a cluster of one or two brokers could have no groups.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from msgspec.structs import replace

from understudy.brokers.apis import create_topics
from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.metadata.topic_names import (
    CLUSTER_METADATA_TOPIC,
    GROUP_METADATA_TOPIC,
    TRANSACTION_STATE_TOPIC,
    is_internal,
    why_invalid,
)
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from understudy.foundation.wire.messages.metadata import MetadataResponseTopic

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.DefaultAutoTopicCreationManager")

TRANSACTIONS_ADVICE = (
    "this broker coordinates no transactions: where Kafka's brokers do, create the topic beforehand, with all its "
    "replicas on them"
)
REPLICAS_ADVICE = "add brokers, then give the topic more replicas by a reassignment of its partitions"


async def create(services: BrokerServices, topics: Iterable[str]) -> tuple[MetadataResponseTopic, ...]:
    """Create each of `topics`, which the metadata cache does not have, and return the response for each."""
    return tuple(
        [
            MetadataResponseTopic(error_code=await _create(services, topic), name=topic, is_internal=is_internal(topic))
            for topic in topics
        ]
    )


def creatable_topic(topic: str, config: KafkaConfig) -> CreatableTopic:
    """Return the topic to create, with its number of partitions, replication factor and configs."""
    if topic == GROUP_METADATA_TOPIC:
        return CreatableTopic(
            name=topic,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs=(
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="producer"),
                CreatableTopicConfig(name="segment.bytes", value=str(config.offsets_topic_segment_bytes)),
            ),
        )
    if topic == TRANSACTION_STATE_TOPIC:
        return CreatableTopic(
            name=topic,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=config.transaction_state_log_replication_factor,
            configs=(
                CreatableTopicConfig(name="cleanup.policy", value="compact"),
                CreatableTopicConfig(name="compression.type", value="uncompressed"),
                CreatableTopicConfig(name="min.insync.replicas", value=str(config.transaction_state_log_min_isr)),
                CreatableTopicConfig(name="segment.bytes", value=str(config.transaction_state_log_segment_bytes)),
                CreatableTopicConfig(name="unclean.leader.election.enable", value="false"),
            ),
        )
    return CreatableTopic(
        name=topic, num_partitions=config.num_partitions, replication_factor=config.default_replication_factor
    )


async def _create(services: BrokerServices, topic: str) -> Errors:
    if why_invalid(topic) is not None:
        return Errors.INVALID_TOPIC_EXCEPTION
    if topic in services.topics_being_created or topic == CLUSTER_METADATA_TOPIC:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    asked = creatable_topic(topic, services.config)
    live = len(services.metadata.snapshot.live_brokers)
    if topic == GROUP_METADATA_TOPIC and 0 < live < asked.replication_factor:
        log.warning(
            "fewer brokers are alive than offsets.topic.replication.factor; the topic gets as many replicas",
            topic=topic,
            replication_factor=live,
            configured=asked.replication_factor,
            advice=REPLICAS_ADVICE,
        )
        asked = replace(asked, replication_factor=live)
    services.topics_being_created.add(topic)
    try:
        outcome = await create_topics.create(services, asked, validate_only=False)
    finally:
        services.topics_being_created.discard(topic)
    if not isinstance(outcome, ApiError):
        if topic == TRANSACTION_STATE_TOPIC:
            log.warning("created a coordinators' topic", topic=topic, advice=TRANSACTIONS_ADVICE)
        return Errors.LEADER_NOT_AVAILABLE
    if outcome.error is Errors.TOPIC_ALREADY_EXISTS:
        return Errors.LEADER_NOT_AVAILABLE
    log.info("error processing create topic request", topic=topic, error=outcome.error.name, why=outcome.message)
    return outcome.error
