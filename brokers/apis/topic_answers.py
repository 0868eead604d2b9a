"""What several topic requests have in common: how large a topic may be, when it counts as created, how its configuration is
shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from brokers.config import TABLE, KafkaConfig
from brokers.config_types import ConfigKey, shown
from brokers.metadata_cache import MetadataSnapshot
from brokers.topic_config import TOPIC_TABLE
from foundation.cluster.errors import ApiError, Errors
from foundation.wire.messages.create_topics import CreatableTopicConfigs
from foundation.zk.client import MAX_REQUEST_BYTES

TOPIC_CONFIG = 1
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5

MAX_PARTITIONS = MAX_REQUEST_BYTES // len('"0":[1],')
"""No topic's znode has room for more, however short the ids of partitions and brokers are."""


class Effective(NamedTuple):
    """A configuration as it is in force: its row, its value as text, and where the value comes from."""

    key: ConfigKey
    value: str | None
    source: int


def require_storable(partitions: int) -> None:
    """Refuse what no znode could hold before anything is computed for it: placing two thousand million partitions would take
    the memory of this machine.

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


def broker_config(config: KafkaConfig) -> Iterator[Effective]:
    """Every key this broker acts upon, by name."""
    for name in sorted(TABLE):
        value = getattr(config, name.replace(".", "_"))
        source = DEFAULT_CONFIG if value == TABLE[name].default else STATIC_BROKER_CONFIG
        yield Effective(TABLE[name], shown(value), source)


def topic_config(stored: Mapping[str, str], config: KafkaConfig) -> Iterator[Effective]:
    """Every topic configuration by name: the topic's own, the broker's under the same name, or Kafka's default."""
    of_broker = {key.name: (value, source) for key, value, source in broker_config(config)}
    for name in sorted(TOPIC_TABLE):
        key = TOPIC_TABLE[name]
        if name in stored:
            yield Effective(key, stored[name], TOPIC_CONFIG)
        else:
            yield Effective(key, *of_broker.get(name, (shown(key.default), DEFAULT_CONFIG)))


def topic_configs_described(stored: Mapping[str, str], config: KafkaConfig) -> tuple[CreatableTopicConfigs, ...]:
    """`topic_config` as CreateTopics answers it."""
    return tuple(
        CreatableTopicConfigs(name=key.name, value=value, config_source=source)
        for key, value, source in topic_config(stored, config)
    )
