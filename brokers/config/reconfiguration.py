"""Checks changes of a running broker as Kafka does, beyond types and ranges: thread pools grow and shrink by at most a
factor of two, local retention stays within retention.

Mirrors the `validateReconfiguration` of `DynamicThreadPool`, `LogCleaner`, `DynamicLogConfig` and the socket server.
This broker has no such threads; it checks because a broker of Kafka's may read the same config.
"""

from __future__ import annotations

from understudy.brokers.config.config_def import ConfigError, ConfigValue
from understudy.brokers.config.dynamic_keys import BROKER_KEYS, synonyms
from understudy.brokers.config.kafka_config import TABLE, KafkaConfig

_THREAD_POOLS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)
_MS_PER_UNIT = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}


def check_reconfiguration(old: KafkaConfig, new: KafkaConfig) -> None:
    """Check that a broker that runs with `old` can change to `new`.

    Raises:
        ConfigError: it cannot; the message is Kafka's, around the reason.
    """
    try:
        for name in _THREAD_POOLS:
            _check_pool(name, number(old, name), number(new, name))
        _check_cleaners(number(old, "log.cleaner.threads"), number(new, "log.cleaner.threads"))
        for name in ("max.connections", "max.connection.creation.rate"):
            if number(old, name) != number(new, name) and number(new, name) <= 0:
                raise ConfigError(f"Invalid {name} {number(new, name)}")
        _check_local_retention(new)
    except ConfigError as error:
        why = f"org.apache.kafka.common.config.ConfigException: {error}"
        raise ConfigError(f"Invalid value {why} for configuration Invalid dynamic configuration") from error


def value(config: KafkaConfig, name: str) -> ConfigValue:
    """Return the value of any key of a broker, acted upon or not."""
    if name in TABLE:
        return config.value_of(name)
    text = config.originals.get(name)
    return BROKER_KEYS[name].default if text is None else BROKER_KEYS[name].parse(text)


def number(config: KafkaConfig, name: str) -> int:
    found = value(config, name)
    assert isinstance(found, int), f"{name} is a number and has a default"
    return found


def time_ms(config: KafkaConfig, name: str) -> int:
    """Return a time in ms that may be configured in other units by synonyms ending in `.minutes` and `.hours`.

    Every negative retention is -1, as in `KafkaConfig.logRetentionTimeMillis`.
    """
    for synonym in synonyms(name):
        found = value(config, synonym)
        if isinstance(found, int):
            time = found * _MS_PER_UNIT[synonym.rpartition(".")[2]]
            return max(time, -1) if name == "log.retention.ms" else time
    raise AssertionError(f"the weakest synonym of {name} has a default")


def _check_pool(name: str, old: int, new: int) -> None:
    if new == old:
        return
    what = f"Dynamic thread count update validation failed for {name}={new}"
    if new <= 0:
        raise ConfigError(f"{what}, value should be at least 1")
    if new < old // 2:
        raise ConfigError(f"{what}, value should be at least half the current value {old}")
    if new > old * 2:
        raise ConfigError(f"{what}, value should not be greater than double the current value {old}")


def _check_cleaners(old: int, new: int) -> None:
    if new == old:
        return
    if new < 1:
        raise ConfigError("Log cleaner threads should be at least 1")
    if new < old // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
    if new > old * 2:
        raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {old}")


def _check_local_retention(config: KafkaConfig) -> None:
    limits = (
        ("log.retention.ms", time_ms(config, "log.retention.ms")),
        ("log.retention.bytes", number(config, "log.retention.bytes")),
    )
    for whole, limit in limits:
        local = whole.replace("log.", "log.local.", 1)
        kept = number(config, local)
        if limit == -1 or kept == -2:
            continue
        if kept == -1:
            raise ConfigError.invalid(local, kept, f"Value must not be -1 as {whole} value is set as {limit}.")
        if kept > limit:
            raise ConfigError.invalid(local, kept, f"Value must not be more than {whole} property value: {limit}")
