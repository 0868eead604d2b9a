"""Tests of KRaft nodes in ZooKeeper mode: which container runs the ZooKeeper server, and which broker remains."""

from __future__ import annotations

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.reading import read_config
from understudy.cli.image.kraft import BOOTSTRAP_SERVERS, Translation, is_kraft, translate

VOTERS = "3@c:9093,1@a:9093,2@b:9093"
COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": VOTERS,
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://:9092",
    "advertised.listeners": "PLAINTEXT://a:19092,PLAINTEXT_HOST://localhost:29092",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
}


def translated(*, local: str = "", **changes: str) -> Translation:
    named = {name.replace("_", "."): value for name, value in changes.items()}
    return translate({**COMBINED, **named}, lambda host: host == local)


def test_the_node_with_the_lowest_voter_id_runs_the_zookeeper_of_all_nodes_at_its_own_address() -> None:
    first, second = translated(), translated(node_id="2")
    assert (first.zookeeper_port, first.properties["zookeeper.connect"]) == (9093, "127.0.0.1:9093")
    assert (second.zookeeper_port, second.properties["zookeeper.connect"]) == (None, "a:9093")
    assert first.runs_broker
    assert second.runs_broker


def test_its_broker_has_no_listener_of_the_controller_and_is_a_valid_configuration() -> None:
    properties = translated().properties
    assert properties["listeners"] == "PLAINTEXT://:19092,PLAINTEXT_HOST://:9092"
    config = read_config(properties)
    assert (config.broker_id, config.zookeeper_session_timeout_ms) == (1, 9000)


def test_an_id_above_the_ids_that_zookeeper_generates_is_valid() -> None:
    assert read_config(translated(node_id="3000").properties).broker_id == 3000


def test_the_session_timeout_follows_the_brokers() -> None:
    assert translated(broker_session_timeout_ms="6000").properties["zookeeper.session.timeout.ms"] == "6000"


def test_a_controller_runs_the_zookeeper_or_nothing() -> None:
    first = translated(process_roles="controller")
    assert (first.runs_broker, first.zookeeper_port) == (False, 9093)
    third = translated(process_roles="controller", node_id="3")
    assert (third.runs_broker, third.zookeeper_port) == (False, None)
    assert third.sentences == (
        "KRaft node 3 is run in ZooKeeper mode, which means nothing in this container.",
        "One of the brokers is the controller, and the ZooKeeper server is at a:9093.",
    )


def test_a_broker_whose_id_is_a_voters_by_chance_runs_no_zookeeper() -> None:
    broker = translated(process_roles="broker")
    assert (broker.zookeeper_port, broker.properties["zookeeper.connect"]) == (None, "a:9093")


def test_the_first_bootstrap_server_is_the_zookeeper_if_there_are_no_voters() -> None:
    changes = {"controller.quorum.voters": "", BOOTSTRAP_SERVERS: "a:9093,b:9093"}
    here = translate({**COMBINED, **changes}, lambda host: host == "a")
    elsewhere = translate({**COMBINED, **changes}, lambda host: host == "b")
    assert (here.zookeeper_port, elsewhere.zookeeper_port) == (9093, None)
    assert elsewhere.properties["zookeeper.connect"] == "a:9093"


def test_a_combined_node_without_addresses_is_alone() -> None:
    alone = translate({"process.roles": "broker,controller", "node.id": "7"}, lambda _: False)
    assert alone.zookeeper_port == 2181
    assert "zookeeper.connect" not in alone.properties


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"process_roles": "broker,observer"}, "process.roles: expected broker, controller, or both"),
        ({"node_id": "x"}, "node.id: a KRaft node needs its id"),
        ({"controller_quorum_voters": "a:9093"}, "controller.quorum.voters: expected id@host:port"),
        ({"controller_quorum_voters": "1@a:99999"}, "controller.quorum.voters: expected id@host:port"),
        ({"controller_quorum_voters": "", "process_roles": "broker"}, "a KRaft broker needs the addresses"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        translated(**changes)


def test_roles_beside_a_zookeeper_are_a_broker_in_zookeeper_mode() -> None:
    assert not is_kraft({"process.roles": "broker", "zookeeper.connect": "z:2181"})
