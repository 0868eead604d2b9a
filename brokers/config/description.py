"""Describes configurations to clients: every key with its value, and all places the value may come from. Mirrors
`ConfigHelper`.

A broker's key is looked up under each of its names in each layer: its own dynamic config, the dynamic default of all
brokers, `server.properties`, the built-in defaults. A topic's own config comes before all of these; without one the
corresponding key of the broker is the default. Passwords and values of unknown keys are never shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from understudy.brokers.config.config_def import ConfigKey, ConfigType, ConfigValue, shown
from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.brokers.config.dynamic_keys import BROKER_KEYS, DYNAMIC, TOPIC_SYNONYMS, key_of, synonyms
from understudy.brokers.config.kafka_config import MAX_LONG, KafkaConfig
from understudy.brokers.config.reconfiguration import time_ms, value
from understudy.brokers.config.topic_config import TOPIC_TABLE


class ConfigSource(IntEnum):
    """Where a value comes from, with the number in DescribeConfigs. Mirrors `DescribeConfigsResponse.ConfigSource`."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Synonym(NamedTuple):
    """One place a value may come from; `value` is None if there is none or it is sensitive."""

    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    """One key as DescribeConfigs shows it.

    Attributes:
        value: None if there is none, or it is sensitive.
        synonyms: the one in force first.
        type: None for an unknown key.
    """

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    type: ConfigType | None
    is_sensitive: bool = False
    read_only: bool = False
    doc: str | None = None


def topic_defaults(config: KafkaConfig) -> dict[str, ConfigValue]:
    """Return the values of a topic without a config of its own, under the names of topic configs."""
    return {name: _topic_default(config, key) for name, key in TOPIC_TABLE.items()}


def describe_topic(stored: Mapping[str, str], dynamic: DynamicBrokerConfig) -> Iterator[Described]:
    """Yield every key of a topic; `stored` is its own config."""
    defaults = topic_defaults(dynamic.current)
    for name in sorted({*TOPIC_TABLE, *stored}):
        key = TOPIC_TABLE.get(name)
        sensitive = _is_sensitive(key)
        broker_key = TOPIC_SYNONYMS.get(name)
        places = () if broker_key is None else _places(broker_key, dynamic, sensitive)
        text = shown(_parsed(key, stored[name]) if name in stored else defaults[name])
        if name in stored:
            places = (Synonym(name, None if sensitive else text, ConfigSource.TOPIC), *places)
        yield _described(name, key, text, places, read_only=False)


def describe_broker(dynamic: DynamicBrokerConfig) -> Iterator[Described]:
    """Yield every key of this broker, and every unknown key it was configured with."""
    config = dynamic.current
    known = {name for name, key in BROKER_KEYS.items() if not key.internal}
    for name in sorted(known | config.originals.keys()):
        text = shown(value(config, name)) if name in known else config.originals[name]
        key = key_of(name)
        yield _described(name, key, text, _places(name, dynamic, _is_sensitive(key)), read_only=name not in DYNAMIC)


def describe_broker_defaults(dynamic: DynamicBrokerConfig) -> Iterator[Described]:
    """Yield the dynamic defaults of all brokers."""
    for name in sorted(dynamic.default_layer):
        key = key_of(name)
        places = _places(name, dynamic, _is_sensitive(key))
        ours = tuple(place for place in places if place.source is ConfigSource.DYNAMIC_DEFAULT_BROKER)
        yield _described(name, key, dynamic.default_layer[name], ours, read_only=name not in DYNAMIC)


def _described(
    name: str, key: ConfigKey | None, text: str | None, places: tuple[Synonym, ...], *, read_only: bool
) -> Described:
    sensitive = _is_sensitive(key)
    return Described(
        name=name,
        value=None if sensitive else text,
        source=places[0].source if places else ConfigSource.DEFAULT,
        synonyms=places,
        type=None if key is None else key.type,
        is_sensitive=sensitive,
        read_only=read_only,
        doc=None if key is None else key.doc,
    )


def _places(name: str, dynamic: DynamicBrokerConfig, sensitive: bool) -> tuple[Synonym, ...]:
    """Return where a broker's key is configured, the strongest place first. Places under another name that come before
    the first one under `name` are left out, as in Kafka."""
    layers = (
        (dynamic.broker_layer, ConfigSource.DYNAMIC_BROKER),
        (dynamic.default_layer, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (dynamic.static.originals, ConfigSource.STATIC_BROKER),
        (_DEFAULTS, ConfigSource.DEFAULT),
    )
    places = [
        Synonym(synonym, None if sensitive else layer[synonym], source)
        for layer, source in layers
        for synonym in synonyms(name)
        if synonym in layer
    ]
    while places and places[0].name != name:
        del places[0]
    return tuple(places)


def _topic_default(config: KafkaConfig, key: ConfigKey) -> ConfigValue:
    broker_key = TOPIC_SYNONYMS.get(key.name)
    if broker_key is None:
        return key.default
    if broker_key in ("log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms"):
        # The deprecated key is in force if the one that replaced it is at its default.
        limit = config.value_of(broker_key)
        return config.log_message_timestamp_difference_max_ms if limit == MAX_LONG else limit
    return time_ms(config, broker_key) if len(synonyms(broker_key)) > 1 else value(config, broker_key)


def _parsed(key: ConfigKey | None, text: str) -> ConfigValue:
    return text if key is None else key.type.parse(key.name, text)


def _is_sensitive(key: ConfigKey | None) -> bool:
    return key is None or key.is_sensitive


_DEFAULTS: Mapping[str, str] = {
    name: text
    for name, key in BROKER_KEYS.items()
    if not key.internal and name != "zookeeper.connect" and (text := shown(key.default)) is not None
}
"""Defaults of the keys that have one."""
