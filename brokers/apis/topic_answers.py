"""What several topic requests have in common: how large a topic may be, when it counts as created, how its
configuration is shown."""

from __future__ import annotations

from collections.abc import Mapping

from brokers.config.description import describe_topic
from brokers.config.dynamic_broker_config import DynamicBrokerConfig
from brokers.metadata.metadata_cache import MetadataSnapshot
from foundation.cluster.errors import ApiError, Errors
from foundation.wire.messages.create_topics import CreatableTopicConfigs
from foundation.zk.client import MAX_REQUEST_BYTES

MAX_PARTITIONS = MAX_REQUEST_BYTES // len('"0":[1],')
"""No topic's znode has room for more, however short the ids of partitions and brokers are."""


def require_storable(partitions: int) -> None:
    """Refuse what no znode could hold before anything is computed for it: placing two thousand million partitions would
    take the memory of this machine.

    Raises:
        ApiError: INVALID_PARTITIONS.
    """
    if partitions > MAX_PARTITIONS:
        raise unstorable(partitions)


def unstorable(partitions: int) -> ApiError:
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
    """A topic's configuration as CreateTopics answers it."""
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
