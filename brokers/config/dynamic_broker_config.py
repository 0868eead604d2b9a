"""Keeps the broker's current configuration: what it was started with and what was changed since (CF-6). Mirrors Kafka's
`DynamicBrokerConfig`.

The value of a key is, the strongest first: the broker's dynamic config, the dynamic default of all brokers,
`server.properties`, the built-in default. A stored value that cannot be used is logged and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.dynamic_keys import (
    BROKER_KEYS,
    DYNAMIC,
    DYNAMIC_KEYS,
    SECURITY,
    base_name,
    is_password,
    is_per_broker,
    synonyms,
)
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import reconfigured
from understudy.brokers.config.reconfiguration import check_reconfiguration

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.DynamicBrokerConfig")


class DynamicBrokerConfig:
    """Merges the layers of a broker's configuration.

    Attributes:
        static: the configuration that the broker was started with.
        current: the configuration now; code that acts upon a dynamic key reads it here each time.
        default_layer, broker_layer: the configs stored for all brokers, and for this one, without those that cannot be
            used.
    """

    def __init__(self, static: KafkaConfig) -> None:
        self.static = static
        self.current = static
        self.default_layer: Mapping[str, str] = {}
        self.broker_layer: Mapping[str, str] = {}

    def start_with(self, stored_default: Mapping[str, str], stored_broker: Mapping[str, str]) -> None:
        """Apply the stored configs before the broker runs.

        Changes that a running broker refuses, such as three times the threads, are accepted. Configs that contradict
        each other are left out, so that the broker starts.
        """
        self.default_layer, self.broker_layer = (
            usable(stored_default, per_broker=False),
            usable(stored_broker, per_broker=True),
        )
        try:
            self.current = overridden(self.static, self.default_layer, self.broker_layer)
        except ConfigError as error:
            log.error("dynamic configs could not be applied", which="all", why=str(error))

    def update_default(self, stored: Mapping[str, str]) -> None:
        """Apply `stored`, the new content of `/config/brokers/<default>`."""
        self._apply(usable(stored, per_broker=False), self.broker_layer, "cluster default")

    def update_broker(self, stored: Mapping[str, str]) -> None:
        """Apply `stored`, the new content of `/config/brokers/N`."""
        self._apply(self.default_layer, usable(stored, per_broker=True), "per-broker")

    def validate(self, config: Mapping[str, str], *, per_broker: bool) -> None:
        """Check that `config` could become a layer.

        Raises:
            ConfigError: a key is not dynamic or not for all brokers, a value is bad, or a running broker cannot change
                in this way.
        """
        check_dynamic(config, per_broker=per_broker)
        layers = (self.default_layer, config) if per_broker else (config, self.broker_layer)
        check_reconfiguration(self.current, overridden(self.static, *layers))

    def _apply(self, default_layer: Mapping[str, str], broker_layer: Mapping[str, str], which: str) -> None:
        self.default_layer, self.broker_layer = default_layer, broker_layer
        try:
            config = overridden(self.static, default_layer, broker_layer)
            check_reconfiguration(self.current, config)
        except ConfigError as error:
            log.error("dynamic configs could not be applied", which=which, why=str(error))
            return
        self.current = config


def overridden(static: KafkaConfig, *layers: Mapping[str, str]) -> KafkaConfig:
    """Return `static` with `layers` on top, the last of which is the strongest.

    A key of a layer also hides its synonyms in the layers below: `log.roll.hours` of a strong layer comes before
    `log.roll.ms` of a weak one.

    Raises:
        ConfigError: a value cannot be read, or contradicts another.
    """
    originals = dict(static.originals)
    for layer in layers:
        for name in layer:
            for synonym in synonyms(name, for_listeners=False):
                originals.pop(synonym, None)
        originals.update(layer)
    return reconfigured(static, originals, sorted({name for layer in layers for name in layer}))


def check_dynamic(config: Mapping[str, str], *, per_broker: bool) -> None:
    """Check that all of `config` may be changed while a broker runs. Unknown keys belong to plug-ins, and are accepted.

    Raises:
        ConfigError: the first reason, in Kafka's order.
    """
    _refuse(filter(_is_static, config), "Cannot update these configs dynamically")
    _refuse(
        filter(SECURITY.__contains__, config),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        kind="HashSet",
    )
    for name in sorted(config):
        key = DYNAMIC_KEYS.get(base_name(name))
        if key is not None:
            key.parse(config[name])
    if not per_broker:
        _refuse(
            filter(is_per_broker, config),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def usable(stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """Return the part of a stored config that can be used: it may have been written into ZooKeeper by hand."""
    kept = {}
    for name in sorted(stored):
        try:
            check_dynamic({name: stored[name]}, per_broker=per_broker)
        except ConfigError as error:
            log.error("dynamic config ignored", key=name, why=str(error))
            continue
        if is_password(name):
            log.error("dynamic config ignored", key=name, why="passwords cannot be decoded here")
        else:
            kept[name] = stored[name]
    return kept


def _is_static(name: str) -> bool:
    return name in BROKER_KEYS and name not in DYNAMIC


def _refuse(names: Iterable[str], why: str, *, kind: str = "Set") -> None:
    """Raise ConfigError if there are `names`.

    Args:
        kind: the class by which Scala prints the set in Kafka's message.
    """
    refused = sorted(names)
    if refused:
        raise ConfigError(f"{why}: {kind}({', '.join(refused)})")
