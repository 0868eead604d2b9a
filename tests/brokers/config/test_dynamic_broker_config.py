"""Tests of `DynamicBrokerConfig`: precedence of config sources, and changes that a running broker refuses."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.description import (
    ConfigSource,
    Synonym,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig, overridden
from understudy.brokers.config.dynamic_keys import (
    BROKER_KEYS,
    CLUSTER_WIDE,
    DYNAMIC,
    DYNAMIC_KEYS,
    PER_BROKER,
    TOPIC_SYNONYMS,
    is_per_broker,
    synonyms,
)
from understudy.brokers.config.kafka_config import TABLE
from understudy.brokers.config.reading import read_config
from understudy.brokers.config.topic_config import TOPIC_TABLE

BASE = {"broker.id": "1", "zookeeper.connect": "localhost:2181"}


def started(**properties: str) -> DynamicBrokerConfig:
    static = BASE | {key.replace("_", "."): value for key, value in properties.items()}
    return DynamicBrokerConfig(read_config(static))


@pytest.mark.spec("CF-7")
def test_scopes_of_dynamic_keys() -> None:
    assert {
        "unclean.leader.election.enable",
        "min.insync.replicas",
        "num.replica.fetchers",
        "num.io.threads",
        "background.threads",
    } <= CLUSTER_WIDE
    assert {"listeners", "advertised.listeners", "ssl.keystore.location"} <= PER_BROKER
    assert {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    } <= DYNAMIC_KEYS.keys()
    static = {
        "auto.leader.rebalance.enable",
        "leader.imbalance.per.broker.percentage",
        "leader.imbalance.check.interval.seconds",
        "controlled.shutdown.enable",
        "delete.topic.enable",
        "auto.create.topics.enable",
        "replica.lag.time.max.ms",
        "inter.broker.protocol.version",
    }
    assert not static & DYNAMIC
    assert static <= BROKER_KEYS.keys()
    assert (len(PER_BROKER), len(CLUSTER_WIDE), PER_BROKER & CLUSTER_WIDE) == (37, 52, frozenset())
    assert BROKER_KEYS.keys() >= DYNAMIC
    assert set(TOPIC_SYNONYMS) <= set(TOPIC_TABLE)
    assert set(TOPIC_SYNONYMS.values()) <= set(BROKER_KEYS)


def test_the_key_of_one_listener_is_that_brokers() -> None:
    assert is_per_broker("listener.name.external.ssl.keystore.location")
    assert not is_per_broker("listener.name.external.max.connections")
    assert synonyms("listener.name.a.ssl.keystore.type") == ("listener.name.a.ssl.keystore.type", "ssl.keystore.type")
    assert synonyms("listener.name.a.plain.sasl.jaas.config")[1] == "sasl.jaas.config"
    assert synonyms("listener.name.a.ssl.keystore.type", for_listeners=False) == ("listener.name.a.ssl.keystore.type",)


@pytest.mark.spec("CF-6")
@pytest.mark.parametrize(
    ("default", "broker", "now"),
    [
        ({}, {}, 2),
        ({"min.insync.replicas": "3"}, {}, 3),
        ({"min.insync.replicas": "3"}, {"min.insync.replicas": "4"}, 4),
        ({}, {"min.insync.replicas": "4"}, 4),
        ({"min.insync.replicas": "0"}, {}, 2),
        ({"broker.id": "9", "min.insync.replicas": "3"}, {"zookeeper.connect": ""}, 3),
        ({"listeners": "PLAINTEXT://:1", "min.insync.replicas": "3"}, {}, 3),
    ],
)
def test_source_with_precedence_is_used_and_invalid_values_are_not(
    default: Mapping[str, str], broker: Mapping[str, str], now: int
) -> None:
    dynamic = started(min_insync_replicas="2")
    dynamic.update_default(default)
    dynamic.update_broker(broker)
    assert dynamic.current.min_insync_replicas == now
    again = started(min_insync_replicas="2")
    again.start_with(default, broker)
    assert again.current == dynamic.current
    assert (again.current.broker_id, again.current.listeners) == (1, "PLAINTEXT://:9092")


def test_source_with_precedence_hides_synonyms_of_other_sources() -> None:
    static = read_config(BASE | {"log.retention.ms": "5", "log.retention.hours": "6"})
    merged = overridden(static, {"log.retention.ms": "7"}, {})
    assert {key: text for key, text in merged.originals.items() if "retention" in key} == {"log.retention.ms": "7"}
    assert (merged.log_retention_ms, merged.log_retention_hours) == (7, 168)


def test_limits_of_timestamps_are_those_of_the_deprecated_key_by_default() -> None:
    dynamic = started(log_message_timestamp_difference_max_ms="5", log_message_timestamp_after_max_ms="6")
    topic = {config.name: config.value for config in describe_topic({}, dynamic)}
    limits = [topic[f"message.timestamp.{limit}.max.ms"] for limit in ("difference", "before", "after")]
    assert limits == ["5", "5", "6"]


def test_a_negative_retention_in_any_unit_is_no_limit() -> None:
    topic = {config.name: config.value for config in describe_topic({}, started(log_retention_hours="-2"))}
    assert topic["retention.ms"] == "-1"


def test_contradictory_configs_do_not_change_the_broker() -> None:
    dynamic = started()
    dynamic.update_default({"log.retention.bytes": "10", "log.local.retention.bytes": "20", "min.insync.replicas": "2"})
    assert dynamic.current.min_insync_replicas == 1
    dynamic.update_default({"min.insync.replicas": "2"})
    assert dynamic.current.min_insync_replicas == 2


@pytest.mark.parametrize(
    ("config", "per_broker", "message"),
    [
        ({"num.io.threads": "17"}, True, "value should not be greater than double the current value 8"),
        ({"num.io.threads": "3"}, True, "value should be at least half the current value 8"),
        ({"num.replica.fetchers": "0"}, False, "value should be at least 1"),
        ({"log.cleaner.threads": "0"}, False, "Log cleaner threads should be at least 1"),
        ({"log.cleaner.threads": "3"}, False, "cannot be increased to more than double the current value 1"),
        ({"max.connections": "0"}, False, "Invalid max.connections 0"),
        ({"log.roll.ms": "0"}, False, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ({"log.retention.ms": "0"}, False, "requirement failed: log.retention.ms must be unlimited"),
        (
            {"log.cleaner.dedupe.buffer.size": "1048576"},
            False,
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"log.local.retention.ms": "-1"},
            False,
            "Value must not be -1 as log.retention.ms value is set as 604800000.",
        ),
        (
            {"log.local.retention.bytes": "6", "log.retention.bytes": "5"},
            False,
            "Value must not be more than log.retention.bytes property value: 5",
        ),
        ({"listeners": "OTHER://:1"}, True, "No security protocol defined for listener OTHER"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, True, "nonroutable"),
        ({"listener.name.a.ssl.keystore.type": "JKS"}, False, "broker id must be specified"),
        ({"leader.replication.throttled.rate": "-1"}, False, "Value must be at least 0"),
    ],
)
def test_changes_that_a_running_broker_refuses(config: dict[str, str], per_broker: bool, message: str) -> None:
    dynamic = started()
    with pytest.raises(ConfigError, match=message):
        dynamic.validate(config, per_broker=per_broker)
    assert dynamic.current is dynamic.static


@pytest.mark.parametrize("name", ["custom.own.key", "listener.name.a.ssl.keystore.type", "listeners", "num.io.threads"])
def test_changes_that_a_running_broker_accepts(name: str) -> None:
    value = {"listeners": "PLAINTEXT://:9093", "num.io.threads": "16"}.get(name, "anything")
    started().validate({name: value}, per_broker=True)


def test_all_sources_of_a_value_are_listed_in_order_of_precedence() -> None:
    dynamic = started(log_retention_hours="24", min_insync_replicas="2")
    dynamic.update_default({"log.retention.ms": "30", "min.insync.replicas": "3"})
    dynamic.update_broker({"min.insync.replicas": "4", "their.own": "secret"})
    shown = {config.name: config for config in describe_broker(dynamic)}
    assert shown["min.insync.replicas"].synonyms == (
        Synonym("min.insync.replicas", "4", ConfigSource.DYNAMIC_BROKER),
        Synonym("min.insync.replicas", "3", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("min.insync.replicas", "2", ConfigSource.STATIC_BROKER),
        Synonym("min.insync.replicas", "1", ConfigSource.DEFAULT),
    )
    assert [(place.name, place.value) for place in shown["log.retention.ms"].synonyms] == [
        ("log.retention.ms", "30"),
        ("log.retention.hours", "24"),
        ("log.retention.hours", "168"),
    ]
    assert (shown["their.own"].value, shown["their.own"].is_sensitive, shown["their.own"].type) == (None, True, None)
    assert (shown["broker.id"].read_only, shown["min.insync.replicas"].read_only) == (True, False)
    assert shown["ssl.key.password"].is_sensitive
    defaults = {config.name: config for config in describe_broker_defaults(dynamic)}
    assert {name: (config.value, len(config.synonyms)) for name, config in defaults.items()} == {
        "log.retention.ms": ("30", 1),
        "min.insync.replicas": ("3", 1),
    }
    topic = {config.name: config for config in describe_topic({"min.insync.replicas": "5"}, dynamic)}
    assert [place.source for place in topic["min.insync.replicas"].synonyms] == [1, 2, 3, 4, 5]
    assert (topic["retention.ms"].value, topic["retention.ms"].source) == ("30", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert topic["segment.ms"].value == "604800000"


def test_values_of_unknown_keys_are_never_shown() -> None:
    topic = {config.name: config for config in describe_topic({"from.the.future": "x"}, started())}
    assert (topic["from.the.future"].value, topic["from.the.future"].is_sensitive) == (None, True)


def test_a_node_id_is_a_broker_id() -> None:
    config = read_config({"node.id": "7", "zookeeper.connect": "z:1"})
    assert (config.broker_id, config.originals["broker.id"]) == (7, "7")
    assert set(TABLE) >= {"broker.id"}
