"""Tests of `KafkaConfig`: accepted values, defaults, and the messages of errors, which are Kafka's if it has one."""

from __future__ import annotations

import dataclasses
import re

import pytest

from understudy.brokers.config.accepted_keys import ACCEPTED_KEYS, protections_without_effect
from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import TABLE, KafkaConfig
from understudy.brokers.config.properties import parse_properties
from understudy.brokers.config.reading import read_config, unknown_keys
from understudy.foundation.cluster.broker import EndPoint, SecurityProtocol
from understudy.foundation.cluster.metadata_version import LATEST_PRODUCTION, MetadataVersion

BASE = {"broker.id": "1", "zookeeper.connect": "localhost:2181"}

KAFKAS_OWN = """\
broker.id=0
listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://your.host.name:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.flush.interval.messages=10000
log.flush.interval.ms=1000
log.retention.hours=168
log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
"""The keys that `config/server.properties` of Kafka 3.9 sets, or has in comments."""


def config(**overrides: str) -> KafkaConfig:
    return read_config(BASE | {key.replace("_", "."): value for key, value in overrides.items()})


def error(**overrides: str) -> str:
    with pytest.raises(ConfigError) as raised:
        config(**overrides)
    return str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("broker.id", "abc", "Not a number of type INT"),
        ("broker.id", "1_0", "Not a number of type INT"),
        ("broker.id", "٣", "Not a number of type INT"),
        ("broker.id", "2147483648", "Not a number of type INT"),
        ("broker.id", "", "Not a number of type INT"),
        ("connections.max.idle.ms", "9" * 5000, "Not a number of type LONG"),
        ("delete.topic.enable", "yes", "Expected value to be either true or false"),
        ("num.partitions", "0", "Value must be at least 1"),
        ("security.inter.broker.protocol", "TELNET", "String must be one of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("process.roles", "broker", "this broker runs in ZooKeeper mode only; remove it"),
        ("log.dirs", "/a,/b", "exactly one directory is supported"),
        (
            "replica.selector.class",
            "org.example.Nearest",
            "no class can be loaded; only org.apache.kafka.common.replica.RackAwareReplicaSelector is supported",
        ),
        ("zookeeper.set.acl", "true", "not supported yet; remove it"),
        # Accepted keys are read too, though nothing is done with them.
        ("num.io.threads", "abc", "Not a number of type INT"),
        ("offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        ("log.retention.ms", "", "Not a number of type LONG"),
        ("log.cleaner.min.cleanable.ratio", "half", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio", "1_0", "Not a number of type DOUBLE"),
        ("log.cleaner.io.max.bytes.per.second", "inf", "Not a number of type DOUBLE"),
        ("log.cleaner.enable", "yes", "Expected value to be either true or false"),
        ("principal.builder.class", "com/example/Builder", "Class com/example/Builder could not be found."),
        ("create.topic.policy.class.name", "", "Class  could not be found."),
    ],
)
@pytest.mark.spec("ZN-11")
def test_a_bad_value_is_named_with_what_was_expected(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_config(BASE | {key: value})
    assert str(raised.value) == f"Invalid value {value} for configuration {key}: {reason}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.io.threads", " +8 "),
        ("offsets.commit.required.acks", "-32768"),
        ("remote.log.manager.task.retry.jitter", ".2d"),
        ("sasl.login.refresh.window.factor", "8E-1"),
        ("sasl.login.refresh.window.factor", "Infinity"),
        ("log.preallocate", "FALSE"),
        ("metric.reporters", "com.example.A, com.example.B"),
        ("sasl.enabled.mechanisms", ""),
        ("ssl.keystore.type", "anything at all"),
        ("ssl.key.password", "&%$/ ä"),
        ("principal.builder.class", "com.example.Outer$Builder"),
    ],
)
def test_values_of_keys_without_effect_are_accepted_as_by_kafka(key: str, value: str) -> None:
    properties = BASE | {key: value}
    assert read_config(properties) == config()
    assert unknown_keys(properties) == ()


def test_keys_of_logs_are_read_as_by_kafka() -> None:
    read = config(log_retention_ms="-1", log_cleanup_policy="compact, delete", log_flush_interval_ms=" 7 ")
    assert (read.log_retention_ms, read.log_cleanup_policy) == (-1, ("compact", "delete"))
    assert (read.log_flush_interval_ms, read.log_roll_ms, read.log_roll_hours) == (7, None, 168)
    assert "String must be one of: compact, delete" in error(log_cleanup_policy="tidy")
    assert "Value must be at least 14" in error(log_segment_bytes="13")
    assert "Value must be at least 1024" in error(fetch_max_bytes="1023")


def test_internal_keys_of_kafka_are_described_only_where_they_are_set() -> None:
    internal = {"log.initial.task.delay.ms", "producer.id.expiration.check.interval.ms"}
    assert {key for key in internal if TABLE[key].internal} == internal


def test_every_key_of_kafkas_own_server_properties_is_accepted() -> None:
    properties = parse_properties(KAFKAS_OWN)
    assert len(properties) == KAFKAS_OWN.count("=")
    assert unknown_keys(properties) == ()
    assert read_config(properties).broker_id == 0


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        ({"zookeeper_connect": ""}, "Missing required configuration `zookeeper.connect` which has no default value."),
        ({"broker_id": "1001"}, "not greater than reserved.broker.max.id (1000)"),
        ({"broker_id": "-2"}, "broker.id must be greater than or equal to -1"),
        ({"broker_id": "-1", "broker_id_generation_enable": "false"}, "broker.id must be greater than or equal to 0"),
        ({"log_roll_ms": "0"}, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        ({"log_roll_jitter_ms": "-1"}, "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
        ({"log_retention_ms": "0"}, "requirement failed: log.retention.ms must be unlimited (-1)"),
        ({"log_retention_minutes": "0", "log_retention_hours": "1"}, "log.retention.ms must be unlimited (-1)"),
        ({"log_retention_hours": "0"}, "log.retention.ms must be unlimited (-1)"),
        ({"replica_fetch_wait_max_ms": "40000"}, "replica.socket.timeout.ms should always be at least"),
        (
            {"replica_fetch_wait_max_ms": "20000", "replica_lag_time_max_ms": "10000"},
            "less than or equal to replica.lag",
        ),
    ],
)
def test_values_that_contradict_each_other(overrides: dict[str, str], part: str) -> None:
    assert part in error(**overrides)


def test_broker_id_above_the_reserved_maximum_is_valid_without_generation() -> None:
    assert config(broker_id="5000", broker_id_generation_enable="false").broker_id == 5000


def test_values_are_trimmed_as_kafka_trims_them() -> None:
    assert config(num_partitions=" 3 ").num_partitions == 3


@pytest.mark.parametrize(
    ("listeners", "part"),
    [
        ("", "at least one listener"),
        ("PLAINTEXT//x:1", "expected LISTENER://host:port"),
        ("PLAINTEXT://h:99999", "with a port from 0 to 65535"),
        ("SSL://h:9093", "SSL is not supported yet; only PLAINTEXT listeners are"),
        ("EXTERNAL://h:9092", "No security protocol defined for listener EXTERNAL"),
        ("PLAINTEXT://h:1,PLAINTEXT://h:2", "Each listener must have a different name"),
        ("PLAINTEXT://\x00:1", "expected LISTENER://host:port"),
    ],
)
def test_invalid_listeners_are_refused(listeners: str, part: str) -> None:
    assert part in error(listeners=listeners)


THREE_NAMES = {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"}


@pytest.mark.parametrize(
    "listeners",
    [
        "PLAINTEXT://h:1,B://h:1",
        "PLAINTEXT://h:1,B://other:1",
        "PLAINTEXT://127.0.0.1:1,B://127.0.0.2:1",
        "PLAINTEXT://127.0.0.1:1,B://h:1",
        "PLAINTEXT://127.0.0.1:1,B://[::1]:1,C://h:1",
    ],
)
def test_two_listeners_on_one_port(listeners: str) -> None:
    assert "Each listener must have a different port" in error(listeners=listeners, **THREE_NAMES)


def test_an_ipv4_and_an_ipv6_address_may_share_a_port() -> None:
    bound = config(listeners="PLAINTEXT://127.0.0.1:1,B://[::1]:1,C://h:2", **THREE_NAMES).bound_endpoints()
    assert [(endpoint.host, endpoint.port) for endpoint in bound] == [("127.0.0.1", 1), ("::1", 1), ("h", 2)]


def test_without_a_host_only_this_machine_can_connect() -> None:
    expected = EndPoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, "127.0.0.1", 9092)
    assert config().bound_endpoints() == (expected,)
    assert config(listeners="PLAINTEXT://:9092").advertised_endpoints() == (expected,)


@pytest.mark.parametrize("every_interface", ["0.0.0.0", "::"])
def test_an_empty_host_may_stand_for_every_interface_and_is_advertised_as_the_machines_name(
    every_interface: str,
) -> None:
    read = config(listeners="PLAINTEXT://:9092", understudy_listeners_empty_host=every_interface)
    assert [at.host for at in read.bound_endpoints()] == [every_interface]
    assert [at.host for at in read.advertised_endpoints()] == [""]
    advertised = config(
        listeners="PLAINTEXT://:9092",
        advertised_listeners="PLAINTEXT://:19092",
        understudy_listeners_empty_host=every_interface,
    ).advertised_endpoints()
    assert [(at.host, at.port) for at in advertised] == [("", 19092)]


@pytest.mark.parametrize("name", ["REPLICATION-9091", "inside.zone_1", "Zürich zone", "A:B"])
def test_a_listener_has_any_name_that_kafka_accepts(name: str) -> None:
    read = config(
        listeners=f"{name}://h:1,PLAINTEXT://[::1]:2",
        advertised_listeners=f"{name.lower()}://::1:3",
        listener_security_protocol_map=f"{name}:PLAINTEXT, PLAINTEXT:PLAINTEXT",
        inter_broker_listener_name=name,
    )
    upper = name.upper()
    assert [(at.listener, at.host, at.port) for at in read.bound_endpoints()] == [
        (upper, "h", 1),
        ("PLAINTEXT", "::1", 2),
    ]
    assert [(at.listener, at.host, at.port) for at in read.advertised_endpoints()] == [(upper, "::1", 3)]
    assert read.inter_broker_listener == upper


@pytest.mark.parametrize(
    ("listeners", "advertised", "out_of_reach"),
    [
        ("A://:1,B://0.0.0.0:2", "A://kafka:1,B://kafka:2", ["A"]),
        ("A://localhost:1,B://[::1]:2", "A://kafka:1,B://10.0.0.1:2", ["A", "B"]),
        ("A://:1,B://127.0.1.4:2", "A://localhost:1,B://[::1]:2", []),
        ("A://:1,B://:2", None, []),
    ],
)
def test_names_of_other_machines_on_loopback_listeners_are_found(
    listeners: str, advertised: str | None, out_of_reach: list[str]
) -> None:
    keys = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT", "inter_broker_listener_name": "A"}
    if advertised is not None:
        keys["advertised_listeners"] = advertised
    assert [at.listener for at in config(listeners=listeners, **keys).endpoints_out_of_reach()] == out_of_reach


def test_bound_and_advertised_addresses_may_differ() -> None:
    both = config(
        listeners="internal://0.0.0.0:9092,OUT://[::1]:9093",
        advertised_listeners="INTERNAL://broker-1:9092,OUT://example.org:9093",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,OUT:PLAINTEXT",
        inter_broker_listener_name="internal",
    )
    assert [(at.listener, at.host) for at in both.bound_endpoints()] == [("INTERNAL", "0.0.0.0"), ("OUT", "::1")]
    assert [(at.listener, at.host) for at in both.advertised_endpoints()] == [
        ("INTERNAL", "broker-1"),
        ("OUT", "example.org"),
    ]
    assert both.inter_broker_listener == "INTERNAL"


def test_the_meta_address_cannot_be_advertised() -> None:
    assert "cannot use the nonroutable meta-address 0.0.0.0" in error(listeners="PLAINTEXT://0.0.0.0:9092")


def test_advertised_names_must_be_bound_and_include_the_one_between_brokers() -> None:
    names = {"listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT"}
    assert "must be equal to or a subset" in error(listeners="A://h:1", advertised_listeners="B://h:2", **names)
    assert "inter.broker.listener.name must be a listener name" in error(listeners="A://h:1", **names)


def test_inter_broker_listener_is_named_by_one_key_only() -> None:
    message = error(inter_broker_listener_name="PLAINTEXT", security_inter_broker_protocol="PLAINTEXT")
    assert message == "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."


def test_mistyped_keys_are_reported_and_kafkas_keys_are_not() -> None:
    properties = BASE | {
        "num.network.threads": "3",
        "listener.name.internal.ssl.keystore.location": "/x",
        "brokerid": "1",
    }
    assert unknown_keys(properties) == ("brokerid",)
    assert read_config(properties).broker_id == 1


def test_keys_that_promise_a_protection_are_found_if_they_have_a_value() -> None:
    protecting = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "true",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": "/keys",
        "listener.name.internal.plain.sasl.jaas.config": "x",
        "password.encoder.secret": "x",
        "delegation.token.secret.key": "x",
        "zookeeper.ssl.client.enable": "true",
        "client.quota.callback.class": "com.example.Quota",
        "quota.window.num": "5",
        "create.topic.policy.class.name": "com.example.Policy",
    }
    others = {"num.io.threads": "3", "security.inter.broker.protocol": "PLAINTEXT", "ssl.key.password": " "}
    assert protections_without_effect(BASE | protecting | others) == tuple(sorted(protecting))
    assert unknown_keys(protecting) == ()
    assert protections_without_effect(BASE) == ()


def test_no_key_that_sounds_like_a_protection_is_left_out() -> None:
    sound = re.compile("sasl|ssl|quota|token|password|authoriz|principal|policy|security|acl|auth|creation.rate")
    others = {"group.consumer.migration.policy"}
    for key in ACCEPTED_KEYS:
        expected = sound.search(key) is not None or key == "max.connections.per.ip.overrides"
        assert bool(protections_without_effect({key: "x"})) == (expected and key not in others), key
    assert not any(protections_without_effect({key: "x"}) for key in TABLE), "a key with an effect"


def test_key_is_used_or_accepted_without_effect_never_both() -> None:
    assert not ACCEPTED_KEYS.keys() & TABLE.keys()
    assert len(ACCEPTED_KEYS) + len(TABLE) > 320


def test_every_config_has_a_documentation_and_a_valid_default() -> None:
    for key in TABLE.values():
        assert key.doc is not None, key.name
        assert key.doc.endswith("."), key.name
        if isinstance(key.default, int) and key.minimum is not None:
            assert key.default >= key.minimum, key.name
    assert len(TABLE) == sum(row.name != "originals" for row in dataclasses.fields(KafkaConfig))


def test_the_controllers_settings_are_the_brokers() -> None:
    settings = config(controller_socket_timeout_ms="7", unclean_leader_election_enable="true").controller_settings()
    assert (settings.controller_socket_timeout_ms, settings.unclean_leader_election_enabled()) == (7, True)
    assert settings.inter_broker_listener_name == "PLAINTEXT"


@pytest.mark.parametrize(
    ("text", "version"), [("3.9", "3.9-IV0"), ("2.8", "2.8-IV1"), ("2.8-IV0", "2.8-IV0"), (" 3.4.1 ", "3.4-IV0")]
)
def test_any_protocol_version_of_kafkas_is_taken(text: str, version: str) -> None:
    read = config(inter_broker_protocol_version=text)
    assert str(read.metadata_version) == str(read.controller_settings().inter_broker_protocol_version) == version
    assert config().metadata_version is LATEST_PRODUCTION


@pytest.mark.parametrize("key", ["inter_broker_protocol_version", "log_message_format_version"])
def test_an_unknown_protocol_version_is_refused_with_the_known_ones(key: str) -> None:
    message = error(**{key: "2.9"})
    name = key.replace("_", ".")
    assert message.startswith(
        f"Invalid value 2.9 for configuration {name}: Version 2.9 is not a valid version; expected a release (0.8.0, "
    )


def test_a_protocol_older_than_the_message_format_is_refused() -> None:
    assert error(inter_broker_protocol_version="0.10.2") == (
        "log.message.format.version 3.0-IV1 can only be used when inter.broker.protocol.version is set to version "
        "0.11.0 or higher; it is 0.10.2: lower the former, too"
    )
    assert "is set to version 0.10.0 or higher" in error(
        inter_broker_protocol_version="0.9.0", log_message_format_version="0.10.2"
    )
    old = config(inter_broker_protocol_version="0.9.0", log_message_format_version="0.9.0")
    assert old.metadata_version is MetadataVersion.IBP_0_9_0


TWO_LISTENERS = {
    "listeners": "PLAINTEXT://h:1,CONTROL://h:2",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROL:PLAINTEXT,ELSEWHERE:PLAINTEXT",
}


@pytest.mark.spec("SN-2")
def test_the_controllers_requests_may_have_a_listener_of_their_own() -> None:
    read = config(control_plane_listener_name="control", **TWO_LISTENERS)
    assert read.control_plane_listener == "CONTROL"
    assert read.controller_settings().controller_to_broker_listener_name == "CONTROL"
    assert config(**TWO_LISTENERS).controller_settings().controller_to_broker_listener_name == "PLAINTEXT"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "NOWHERE",
            "Listener with NOWHERE defined in control.plane.listener.name not found in listener.security.protocol.map.",
        ),
        (
            "ELSEWHERE",
            "control.plane.listener.name must be a listener name defined in advertised.listeners; it is ELSEWHERE. "
            "The valid options based on currently configured listeners are PLAINTEXT,CONTROL",
        ),
        (
            "plaintext",
            "control.plane.listener.name, when defined, should have a different value from the inter broker listener "
            "name. Currently they both have the value PLAINTEXT",
        ),
    ],
)
def test_the_listener_of_the_controllers_requests_is_checked(name: str, reason: str) -> None:
    assert error(control_plane_listener_name=name, **TWO_LISTENERS) == reason
