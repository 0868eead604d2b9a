"""Tests of what a container runs, in the shapes of compose files in use."""

from __future__ import annotations

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.cli.image.plan import Plan, plan_of


def plan(environment: dict[str, str], file: dict[str, str] | None = None) -> Plan:
    return plan_of(environment, is_local=lambda host: host == "here", file=file)


def broker(environment: dict[str, str], file: dict[str, str] | None = None) -> KafkaConfig:
    config = plan(environment, file).broker
    assert config is not None
    return config


def addresses(config: KafkaConfig) -> tuple[list[str], list[str]]:
    bound, advertised = config.bound_endpoints(), config.advertised_endpoints()
    return [f"{at.host}:{at.port}" for at in bound], [f"{at.host}:{at.port}" for at in advertised]


def test_without_variables_it_is_one_broker_on_localhost_with_a_zookeeper() -> None:
    chosen = plan({})
    config = broker({})
    assert addresses(config) == (["0.0.0.0:9092"], ["localhost:9092"])
    assert (config.broker_id, config.zookeeper_connect) == (1, "127.0.0.1:2181")
    assert (config.offsets_topic_replication_factor, config.log_directory) == (1, "/var/lib/kafka/data")
    assert chosen.zookeeper is not None
    assert (chosen.zookeeper.port, chosen.zookeeper.data_dir) == (2181, "/var/lib/kafka/data/zookeeper")
    assert not chosen.in_place_of_kraft


def test_confluents_broker_binds_what_it_advertises() -> None:
    config = broker(
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181/chroot",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
            "KAFKA_HEAP_OPTS": "-Xmx512m",
        }
    )
    assert addresses(config) == (["0.0.0.0:29092", "0.0.0.0:9092"], ["kafka:29092", "localhost:9092"])
    assert config.zookeeper_connect == "zookeeper:2181/chroot"


def test_wurstmeisters_empty_hosts_bind_every_interface_and_its_id_is_generated() -> None:
    config = broker(
        {
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
            "KAFKA_LISTENERS": "INSIDE://:9092,OUTSIDE://:9094",
            "KAFKA_ADVERTISED_LISTENERS": "INSIDE://:9092,OUTSIDE://localhost:9094",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        }
    )
    # An empty advertised host is the machine's name, which the broker fills in.
    assert addresses(config) == (["0.0.0.0:9092", "0.0.0.0:9094"], [":9092", "localhost:9094"])
    assert config.broker_id == -1


def test_bitnamis_data_is_in_its_volume() -> None:
    config = broker({"KAFKA_CFG_ZOOKEEPER_CONNECT": "z:2181", "ALLOW_PLAINTEXT_LISTENER": "yes"})
    assert config.log_directory == "/bitnami/kafka/data"


def test_debeziums_variables_make_a_broker() -> None:
    config = broker({"ZOOKEEPER_CONNECT": "z:2181", "BROKER_ID": "4", "ADVERTISED_HOST_NAME": "kafka"})
    assert (config.broker_id, addresses(config)) == (4, (["0.0.0.0:9092"], ["kafka:9092"]))


def test_a_kraft_node_is_a_broker_beside_the_zookeeper_of_all() -> None:
    environment = {
        "KAFKA_PROCESS_ROLES": "controller,broker",
        "KAFKA_NODE_ID": "1",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:9093",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    chosen = plan(environment)
    assert chosen.in_place_of_kraft
    assert chosen.zookeeper is not None
    assert chosen.zookeeper.port == 9093
    config = broker(environment)
    assert (config.zookeeper_connect, config.understudy_cluster_id) == ("127.0.0.1:9093", "4L6g3nShT-eMCtK--X86sw")
    assert len(chosen.notes) == 2


def test_a_kraft_node_with_a_zookeeper_of_its_own_is_a_broker_and_has_the_lines_that_programs_wait_for() -> None:
    """Testcontainers always sets the roles, and waits for KRaft's lines."""
    chosen = plan(
        {
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_NODE_ID": "2",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
            "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        }
    )
    assert chosen.broker is not None
    assert chosen.broker.broker_id == 2
    assert chosen.broker.zookeeper_connect == "zookeeper:2181"
    assert chosen.zookeeper is None
    assert chosen.in_place_of_kraft
    assert any("process.roles is without effect beside zookeeper.connect" in note for note in chosen.notes)


def test_confluent_local_has_its_roles_and_listener_names_by_itself() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092",
        "KAFKA_LISTENERS": "PLAINTEXT://kafka:29092,CONTROLLER://kafka:29093,PLAINTEXT_HOST://0.0.0.0:9092",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@kafka:29093",
    }
    chosen = plan(environment)
    assert chosen.zookeeper is not None
    assert (chosen.zookeeper.port, broker(environment).broker_id) == (29093, 1)
    assert addresses(broker(environment)) == (["kafka:29092", "0.0.0.0:9092"], ["kafka:29092", "localhost:9092"])


def test_spotifys_image_has_a_zookeeper_beside_the_broker() -> None:
    environment = {"ADVERTISED_HOST": "192.168.99.100", "ADVERTISED_PORT": "9092"}
    assert plan(environment).zookeeper is not None
    assert addresses(broker(environment)) == (["0.0.0.0:9092"], ["192.168.99.100:9092"])


def test_a_kraft_controller_alone_runs_no_broker() -> None:
    chosen = plan(
        {
            "KAFKA_PROCESS_ROLES": "controller",
            "KAFKA_NODE_ID": "2",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:9093,2@b:9093",
            "KAFKA_LISTENERS": "CONTROLLER://:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        }
    )
    assert (chosen.broker, chosen.zookeeper) == (None, None)


def test_zookeepers_variables_make_a_zookeeper() -> None:
    chosen = plan({"ZOOKEEPER_CLIENT_PORT": "2181", "ZOOKEEPER_SASL": "x"})
    assert chosen.broker is None
    assert chosen.zookeeper is not None
    assert chosen.notes == ("Without effect here: ZOOKEEPER_SASL.",)


def test_variables_win_over_the_file() -> None:
    config = broker(
        {"KAFKA_NUM_PARTITIONS": "5"}, {"num.partitions": "2", "zookeeper.connect": "z:1", "broker.id": "9"}
    )
    assert (config.num_partitions, config.broker_id) == (5, 9)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"KAFKA_LOG_RETENTION_MS": "abc"}, "KAFKA_LOG_RETENTION_MS: Invalid value abc for configuration"),
        ({"KAFKA_CFG_NUM_PARTITIONS": "0"}, "KAFKA_CFG_NUM_PARTITIONS: Invalid value 0"),
        ({"KAFKA_LISTENERS": "SSL://:9093"}, "KAFKA_LISTENERS: .*SSL is not supported yet"),
        ({"KAFKA_LOG_DIRS": "/a,/b"}, "KAFKA_LOG_DIRS: Invalid value /a,/b"),
        ({"KAFKA_CREATE_TOPICS": "a"}, "KAFKA_CREATE_TOPICS: 'a' is no topic"),
        (
            {"KAFKA_PROCESS_ROLES": "broker", "KAFKA_NODE_ID": "1", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1"},
            "KAFKA_CONTROLLER_QUORUM_VOTERS: Invalid value 1",
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_its_variable(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(environment)
