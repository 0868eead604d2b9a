"""Shared by requests about topics: the largest topic, when a topic counts as created, the config in a response."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.brokers.config.description import describe_topic
from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.create_topics import CreatableTopicConfigs
from understudy.foundation.zk.client import MAX_REQUEST_BYTES

MAX_PARTITIONS = MAX_REQUEST_BYTES // len('"0":[1],')
"""Maximum number of partitions that fit into a topic's znode, with the shortest ids of partitions and brokers."""


def require_storable(partitions: int) -> None:
    """Refuse more partitions than a znode can hold before replicas are placed: placing two thousand million partitions
    would need more memory than there is.

    Raises:
        ApiError: INVALID_PARTITIONS.
    """
    if partitions > MAX_PARTITIONS:
        raise unstorable(partitions)


def unstorable(partitions: int) -> ApiError:
    """Return the error of a topic that does not fit into its znode."""
    return ApiError(
        Errors.INVALID_PARTITIONS,
        f"{partitions} partitions with their replicas do not fit into the topic's znode; "
        f"a request to ZooKeeper may have {MAX_REQUEST_BYTES} bytes",
    )


def has_leaders(snapshot: MetadataSnapshot, topic: str, partitions: int) -> bool:
    """Whether partitions 0 to `partitions` − 1 of `topic` all have a leader (TC-7)."""
    states = snapshot.topics.get(topic, {})
    return all(index in states and states[index].leader >= 0 for index in range(partitions))


def topic_configs_described(
    stored: Mapping[str, str], dynamic: DynamicBrokerConfig
) -> tuple[CreatableTopicConfigs, ...]:
    """Return a topic's config as in the response of CreateTopics."""
    return tuple(
        CreatableTopicConfigs(
            name=config.name,
            value=config.value,
            read_only=config.read_only,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
        )
        for config in describe_topic(stored, dynamic)
    )
