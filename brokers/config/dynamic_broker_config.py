"""The broker's configuration as it is now: what it was started with, and what was changed since (CF-6). Mirrors Kafka's
`DynamicBrokerConfig`.

What counts for a key, the strongest first: the broker's dynamic config, the dynamic default of all brokers,
`server.properties`, the built-in default. A value that was stored but cannot be used is left out and said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import structlog

from brokers.config.config_def import ConfigError
from brokers.config.dynamic_keys import (
    BROKER_KEYS,
    DYNAMIC,
    DYNAMIC_KEYS,
    REPLICATION_QUOTAS,
    SECURITY,
    base_name,
    is_password,
    is_per_broker,
    synonyms,
)
from brokers.config.kafka_config import KafkaConfig
from brokers.config.reconfiguration import check_reconfiguration

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.DynamicBrokerConfig")


class DynamicBrokerConfig:
    """Four layers, and the configuration that comes of them.

    Attributes:
        static: as the broker was started.
        current: as it is now; whoever acts upon a dynamic key reads it here each time.
        default_layer, broker_layer: what is stored for all brokers, and for this one, as far as it can be used.
    """

    def __init__(self, static: KafkaConfig) -> None:
        self.static = static
        self.current = static
        self.default_layer: Mapping[str, str] = {}
        self.broker_layer: Mapping[str, str] = {}

    def start_with(self, stored_default: Mapping[str, str], stored_broker: Mapping[str, str]) -> None:
        """Before the broker runs: what Kafka refuses to a running broker, such as three times the threads, is taken
        now.

        Configs that contradict each other are left out, so that the broker starts.
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
        """`/config/brokers/<default>` now holds `stored`."""
        self._apply(usable(stored, per_broker=False), self.broker_layer, "cluster default")

    def update_broker(self, stored: Mapping[str, str]) -> None:
        """`/config/brokers/N` now holds `stored`."""
        self._apply(self.default_layer, usable(stored, per_broker=True), "per-broker")

    def validate(self, config: Mapping[str, str], *, per_broker: bool) -> None:
        """Whether `config` could become a layer.

        Raises:
            ConfigError: a key is not dynamic, not for all brokers, a value is bad, or the broker cannot be changed like
                that.
        """
        check_dynamic(config, per_broker=per_broker)
        layers = (self.default_layer, config) if per_broker else (config, self.broker_layer)
        check_reconfiguration(self.current, overridden(self.static, *layers))

    def quota(self, name: str) -> int:
        """RA-17: a replication quota in bytes per second; without one, a number no replica reaches."""
        text = self.broker_layer.get(name, self.default_layer.get(name))
        value = REPLICATION_QUOTAS[name].default if text is None else REPLICATION_QUOTAS[name].parse(text)
        assert isinstance(value, int), "quotas are of type LONG"
        return value

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
    """`static` under `layers`, the last of which is the strongest. A key of a layer also hides what the layers below
    say under
    its synonyms: `log.roll.hours` of a strong layer counts more than `log.roll.ms` of a weak one.

    Raises:
        ConfigError: a value cannot be read, or contradicts another.
    """
    originals = dict(static.originals)
    for layer in layers:
        for name in layer:
            for synonym in synonyms(name, for_listeners=False):
                originals.pop(synonym, None)
        originals.update(layer)
    return static.reconfigured(originals, sorted({name for layer in layers for name in layer}))


def check_dynamic(config: Mapping[str, str], *, per_broker: bool) -> None:
    """Whether all of `config` may be changed while a broker runs. Keys Kafka does not know are somebody's own, and
    pass.

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
    """What of a stored config can be used. Somebody may have written to ZooKeeper by hand."""
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
    """`kind` is what Scala happens to call the set."""
    refused = sorted(names)
    if refused:
        raise ConfigError(f"{why}: {kind}({', '.join(refused)})")
