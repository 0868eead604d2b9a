"""What several topic requests have in common: when a topic counts as created, and how its configuration is shown."""

from __future__ import annotations

from collections.abc import Mapping

from brokers.config_types import ConfigValue
from brokers.metadata_cache import MetadataSnapshot
from brokers.topic_config import TOPIC_TABLE
from foundation.wire.messages.create_topics import CreatableTopicConfigs

DYNAMIC_TOPIC_CONFIG = 1
DEFAULT_CONFIG = 5


def has_leaders(snapshot: MetadataSnapshot, topic: str, partitions: int) -> bool:
    """Whether partitions 0 to `partitions` − 1 of `topic` all have a leader (TC-7)."""
    states = snapshot.topics.get(topic, {})
    return all(index in states and states[index].leader >= 0 for index in range(partitions))


def topic_configs_described(config: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
    """Every topic configuration by name, with where its value comes from."""
    return tuple(
        CreatableTopicConfigs(
            name=name,
            value=config.get(name, shown(TOPIC_TABLE[name].default)),
            config_source=DYNAMIC_TOPIC_CONFIG if name in config else DEFAULT_CONFIG,
        )
        for name in sorted(TOPIC_TABLE)
    )


def shown(value: ConfigValue) -> str | None:
    """A value as `server.properties` would have it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
