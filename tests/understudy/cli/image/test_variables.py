"""Tests of the variables of Kafka's images: which property each one is, and which ones have no effect."""

from __future__ import annotations

import pytest

from understudy.cli.image.variables import property_key, read_variables


@pytest.mark.parametrize(
    ("rest", "key"),
    [
        ("NUM_PARTITIONS", "num.partitions"),
        ("LISTENER_NAME_A__B_PORT", "listener.name.a_b.port"),
        ("SASL___PLAIN", "sasl-plain"),
        ("A___B__C_D", "a-b_c.d"),
    ],
)
def test_underscores_stand_for_dots_underscores_and_dashes(rest: str, key: str) -> None:
    assert property_key(rest) == key


def test_both_prefixes_are_properties_and_bitnamis_wins() -> None:
    read = read_variables({"KAFKA_NUM_PARTITIONS": "1", "KAFKA_CFG_NUM_PARTITIONS": "2", "KAFKA_CFG_BROKER_RACK": "a"})
    assert read.properties == {"num.partitions": "2", "broker.rack": "a"}
    assert read.names == {"num.partitions": "KAFKA_CFG_NUM_PARTITIONS", "broker.rack": "KAFKA_CFG_BROKER_RACK"}
    assert read.ignored == ()


@pytest.mark.parametrize(
    "name",
    [
        *("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JMX_PORT", "KAFKA_JMX_OPTS", "JMX_PORT", "JMXPORT", "EXTRA_ARGS"),
        *("KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_LOG4J_LOGGERS"),
        *("KAFKA_TOOLS_LOG4J_LOGLEVEL", "LOG4J_LOGGER_KAFKA", "CONFLUENT_METRICS_ENABLE", "BITNAMI_DEBUG"),
        *("KAFKA_CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR", "ALLOW_PLAINTEXT_LISTENER", "KAFKA_ENABLE_KRAFT"),
        *("KAFKA_CLIENT_USERS", "KAFKA_CLIENT_PASSWORDS", "KAFKA_INTER_BROKER_USER", "KAFKA_ZOOKEEPER_PASSWORD"),
    ],
)
def test_variables_of_a_jvm_and_of_sidecars_are_named_as_ignored(name: str) -> None:
    read = read_variables({name: "x"})
    assert (read.properties, read.ignored) == ({}, (name,))


@pytest.mark.parametrize(
    "name", ["KAFKA_HOME", "KAFKA_VERSION", "KAFKA_SERVICE_HOST", "KAFKA_PORT_9092_TCP_ADDR", "PATH"]
)
def test_variables_of_the_image_and_of_service_links_are_passed_over(name: str) -> None:
    read = read_variables({name: "x", "KAFKA_PORT": "tcp://10.0.0.1:9092"})
    assert (read.properties, read.others, read.ignored) == ({}, {}, ())


def test_an_inter_broker_listener_is_a_property() -> None:
    assert read_variables({"KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE"}).properties == {
        "inter.broker.listener.name": "INSIDE"
    }


def test_an_empty_variable_counts_as_not_set() -> None:
    assert read_variables({"KAFKA_BROKER_RACK": " ", "KAFKA_CREATE_TOPICS": ""}).properties == {}


def test_debeziums_names_are_read_beside_one_that_only_its_image_has() -> None:
    given = {"BROKER_ID": "3", "ZOOKEEPER_CONNECT": "zoo:2181", "ADVERTISED_HOST_NAME": "kafka", "PORT": "9094"}
    read = read_variables(given)
    assert read.properties == {"broker.id": "3", "zookeeper.connect": "zoo:2181"}
    assert read.others == {"KAFKA_ADVERTISED_HOST_NAME": "kafka", "KAFKA_PORT": "9094"}
    assert read_variables({"PORT": "8080", "HOST_NAME": "web"}).others == {}


def test_debeziums_kraft_node_has_roles() -> None:
    read = read_variables({"NODE_ID": "1", "CLUSTER_ID": "abc", "NODE_ROLE": "controller"})
    assert read.properties["process.roles"] == "controller"


def test_a_message_begins_with_the_variables_of_the_keys_in_it() -> None:
    read = read_variables({"KAFKA_LOG_RETENTION_MS": "abc", "KAFKA_LOG_RETENTION_HOURS": "1"})
    message = "Invalid value abc for configuration log.retention.ms: Not a number of type LONG"
    assert read.named(message) == f"KAFKA_LOG_RETENTION_MS: {message}"
    assert read.named("zookeeper.connect is missing") == "zookeeper.connect is missing"
