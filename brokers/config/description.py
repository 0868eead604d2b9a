"""Configurations as clients are shown them: every key with its value, and all places the value may come from. Mirrors
`ConfigHelper`.

A broker's key is looked up under each of its names in each layer: its own dynamic config, the dynamic default of all
brokers, `server.properties`, the built-in defaults. A topic's comes before all of these, and where the topic says
nothing, the broker's key of the same meaning is the default. What cannot be known to be harmless is shown to nobody:
passwords, and values of keys nobody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from brokers.config.config_def import ConfigKey, ConfigType, ConfigValue, shown
from brokers.config.dynamic_broker_config import DynamicBrokerConfig
from brokers.config.dynamic_keys import BROKER_KEYS, DYNAMIC, TOPIC_SYNONYMS, key_of, synonyms
from brokers.config.kafka_config import KafkaConfig
from brokers.config.reconfiguration import time_ms, value
from brokers.config.topic_config import TOPIC_TABLE


class ConfigSource(IntEnum):
    """Mirrors `DescribeConfigsResponse.ConfigSource`; the number goes over the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6


class Synonym(NamedTuple):
    """A place a value may come from; `value` None where there is none, or it is nobody's business."""

    name: str
    value: str | None
    source: ConfigSource


class Described(NamedTuple):
    """
    Attributes:
        value: None where there is none, or it is sensitive.
        synonyms: the one in force first.
        type: None for a key nobody knows.
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
    """What holds for a topic that says nothing, by the names a topic would use."""
    return {name: _topic_default(config, key) for name, key in TOPIC_TABLE.items()}


def describe_topic(stored: Mapping[str, str], dynamic: DynamicBrokerConfig) -> Iterator[Described]:
    """Every key a topic has; `stored` is its own config."""
    defaults = topic_defaults(dynamic.current)
    for name in sorted({*TOPIC_TABLE, *stored}):
        key = TOPIC_TABLE.get(name)
        sensitive = _is_sensitive(key)
        broker_key = TOPIC_SYNONYMS.get(name)
        places = () if broker_key is None else _places(broker_key, dynamic, sensitive)
        if name in stored:
            text = None if sensitive else shown(_parsed(key, stored[name]))
            places = (Synonym(name, text, ConfigSource.TOPIC), *places)
        else:
            text = shown(defaults[name])
        source = places[0].source if places else ConfigSource.DEFAULT
        kind, doc = (None, None) if key is None else (key.type, key.doc)
        yield Described(name, text, source, places, kind, sensitive, doc=doc)


def describe_broker(dynamic: DynamicBrokerConfig) -> Iterator[Described]:
    """Every key of this broker, and everything else it was configured with."""
    config = dynamic.current
    known = {name for name, key in BROKER_KEYS.items() if not key.internal}
    for name in sorted(known | config.originals.keys()):
        text = shown(value(config, name)) if name in known else config.originals[name]
        key = key_of(name)
        yield _described(name, key, text, _places(name, dynamic, _is_sensitive(key)))


def describe_broker_defaults(dynamic: DynamicBrokerConfig) -> Iterator[Described]:
    """What is configured dynamically for all brokers."""
    for name in sorted(dynamic.default_layer):
        key = key_of(name)
        places = _places(name, dynamic, _is_sensitive(key))
        ours = tuple(place for place in places if place.source is ConfigSource.DYNAMIC_DEFAULT_BROKER)
        yield _described(name, key, dynamic.default_layer[name], ours)


def _described(name: str, key: ConfigKey | None, text: str | None, places: tuple[Synonym, ...]) -> Described:
    sensitive = _is_sensitive(key)
    return Described(
        name=name,
        value=None if sensitive else text,
        source=places[0].source if places else ConfigSource.DEFAULT,
        synonyms=places,
        type=None if key is None else key.type,
        is_sensitive=sensitive,
        read_only=name not in DYNAMIC,
        doc=None if key is None else key.doc,
    )


def _places(name: str, dynamic: DynamicBrokerConfig, sensitive: bool) -> tuple[Synonym, ...]:
    """Where a broker's key is configured, the strongest place first. What stands under another of its names and would
    be stronger than anything under `name` itself is left out, as in Kafka."""
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
"""Keys without a default are left out; the one key that is required has none either."""
