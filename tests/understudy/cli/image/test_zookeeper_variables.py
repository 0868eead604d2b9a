"""Tests of the variables of the ZooKeeper images."""

from __future__ import annotations

import pytest

from understudy.brokers.config.config_def import ConfigError
from understudy.cli.image.zookeeper_variables import is_zookeeper, read_zookeeper_variables, zookeeper_properties


@pytest.mark.parametrize(
    ("environment", "answer"),
    [
        ({"ZOOKEEPER_CLIENT_PORT": "2181", "ZOOKEEPER_TICK_TIME": "2000"}, True),
        ({"ZOOKEEPER_CLIENT_PORT": "2181", "KAFKA_HEAP_OPTS": "-Xmx1g"}, True),
        ({"ZOOKEEPER_CLIENT_PORT": "2181", "KAFKA_JMX_PORT": "9999"}, True),
        ({"ZOO_MY_ID": "1"}, True),
        ({"ALLOW_ANONYMOUS_LOGIN": "yes"}, True),
        ({"SERVER_ID": "1", "SERVER_COUNT": "3"}, True),
        ({"KAFKA_ZOOKEEPER_CONNECT": "z:2181", "ZOOKEEPER_CLIENT_PORT": "2181"}, False),
        ({"KAFKA_CFG_ZOOKEEPER_CONNECT": "z:2181", "ALLOW_PLAINTEXT_LISTENER": "yes"}, False),
        ({}, False),
    ],
)
def test_the_variables_of_a_zookeeper_image_make_a_zookeeper_server(environment: dict[str, str], answer: bool) -> None:
    assert is_zookeeper(environment) is answer


def test_confluents_variables_are_settings_of_a_standalone_server() -> None:
    read = read_zookeeper_variables(
        {"ZOOKEEPER_CLIENT_PORT": "22181", "ZOOKEEPER_TICK_TIME": "2000", "ZOOKEEPER_SECURE_CLIENT_PORT": "2182"}
    )
    assert (read.port, read.my_id, read.servers, read.settings) == (22181, None, {}, {"tickTime": "2000"})
    assert read.data_dir == "/var/lib/zookeeper/data"
    assert read.ignored == ("ZOOKEEPER_SECURE_CLIENT_PORT",)


@pytest.mark.parametrize(
    ("environment", "servers"),
    [
        (
            {"ZOOKEEPER_SERVER_ID": "2", "ZOOKEEPER_SERVERS": "a:22888:23888;b:22888:23888;c:22888:23888"},
            {1: "a:22888:23888", 2: "b:22888:23888", 3: "c:22888:23888"},
        ),
        (
            {"ZOO_MY_ID": "2", "ZOO_SERVERS": "server.1=a:2888:3888;2181 server.2=0.0.0.0:2888:3888;2181"},
            {1: "a:2888:3888;2181", 2: "0.0.0.0:2888:3888;2181"},
        ),
        ({"ZOO_SERVER_ID": "2", "ZOO_SERVERS": "a:2888:3888::1,b:2888:3888::2"}, {1: "a:2888:3888", 2: "b:2888:3888"}),
        (
            {"SERVER_ID": "2", "SERVER_COUNT": "3"},
            {1: "zookeeper-1:2888:3888", 2: "0.0.0.0:2888:3888", 3: "zookeeper-3:2888:3888"},
        ),
    ],
)
def test_the_servers_of_an_ensemble_are_read_in_the_form_of_each_image(
    environment: dict[str, str], servers: dict[int, str]
) -> None:
    read = read_zookeeper_variables(environment)
    assert (read.my_id, read.servers) == (2, servers)


def test_a_list_of_one_server_is_a_standalone_server() -> None:
    read = read_zookeeper_variables({"ZOO_MY_ID": "1", "ZOO_SERVERS": "server.1=0.0.0.0:2888:3888;2181"})
    assert (read.my_id, read.servers) == (None, {})


@pytest.mark.parametrize(
    ("environment", "data_dir"),
    [
        ({"ZOO_MY_ID": "1"}, "/data"),
        ({"ZOO_DATA_DIR": "/mine"}, "/mine"),
        ({"ALLOW_ANONYMOUS_LOGIN": "yes"}, "/bitnami/zookeeper/data"),
        ({"SERVER_ID": "1", "SERVER_COUNT": "1"}, "/zookeeper/data"),
    ],
)
def test_data_is_in_the_volume_of_the_image(environment: dict[str, str], data_dir: str) -> None:
    assert read_zookeeper_variables(environment).data_dir == data_dir


def test_extra_lines_of_the_official_image_are_settings() -> None:
    read = read_zookeeper_variables({"ZOO_MY_ID": "1", "ZOO_CFG_EXTRA": "snapCount=5 x.y=z", "ZOO_INIT_LIMIT": "7"})
    assert read.settings == {"initLimit": "7", "snapCount": "5", "x.y": "z"}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ZOOKEEPER_CLIENT_PORT": "x"}, "ZOOKEEPER_CLIENT_PORT=x: expected a number"),
        ({"ZOOKEEPER_TICK_TIME": "2s", "ZOOKEEPER_CLIENT_PORT": "1"}, "ZOOKEEPER_TICK_TIME=2s: expected a number"),
        ({"ZOOKEEPER_SERVERS": "a,b", "ZOOKEEPER_SERVER_ID": "1"}, "ZOOKEEPER_SERVERS: a,b is no server"),
        ({"ZOO_SERVERS": "a", "ZOO_MY_ID": "1"}, "ZOO_SERVERS=a: a is no server"),
        ({"ZOO_SERVERS": "server.1=a:1:2 server.2=b:1:2", "ZOO_MY_ID": "5"}, "the server's id is 5"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_its_variable(environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_zookeeper_variables(environment)


def test_a_file_of_zookeeper_is_read() -> None:
    properties = {"dataDir": "/mine", "clientPort": "2182", "tickTime": "100", "server.1": "a:1:2", "server.2": "b:1:2"}
    read = zookeeper_properties(properties, "2")
    assert read[:5] == (2182, 2, {1: "a:1:2", 2: "b:1:2"}, {"tickTime": "100"}, "/mine")
    with pytest.raises(ConfigError, match="expected this server's id in dataDir/myid"):
        zookeeper_properties(properties, None)
