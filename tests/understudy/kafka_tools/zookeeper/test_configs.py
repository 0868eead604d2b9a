"""`understudy configs --zookeeper` writes the znodes of entities, and announces each change to the brokers."""

from __future__ import annotations

import base64
import random

import pytest

from tests.understudy.kafka_tools.zookeeper.bed import CONNECT, Printed, ZooKeeperBed
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.zookeeper.configs import entity_of
from understudy.kafka_tools.zookeeper.scram import credential, stored

WARNING = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
    "Use --bootstrap-server instead to specify a broker to connect to.\n"
)


def configs(bed: ZooKeeperBed, *words: str) -> Printed:
    return bed.run("configs", "--zookeeper", CONNECT, *words)


def test_a_topics_config_is_changed_described_and_announced(bed: ZooKeeperBed) -> None:
    bed.make("/brokers/topics/orders", data=b'{"version":1,"partitions":{"0":[1]}}')
    changed = configs(
        bed, "--alter", "--topic", "orders", "--add-config", "retention.ms=5,cleanup.policy=[compact,delete]"
    )
    assert changed == Printed(0, f"{WARNING}Completed updating config for entity: topic 'orders'.\n", "")
    assert bed.data("/config/topics/orders") == (
        '{"version":1,"config":{"retention.ms":"5","cleanup.policy":"compact,delete"}}'
    )
    assert bed.data("/config/changes/config_change_0000000000") == '{"version":2,"entity_path":"topics/orders"}'
    configs(bed, "--alter", "--topic", "orders", "--delete-config", "cleanup.policy")
    described = configs(bed, "--describe", "--entity-type", "topics")
    assert described.out == f"{WARNING}Configs for topic 'orders' are retention.ms=5\n"


def test_a_topic_that_does_not_exist_has_no_config(bed: ZooKeeperBed) -> None:
    refused = configs(bed, "--alter", "--topic", "orders", "--add-config", "retention.ms=5")
    assert refused.code == 1
    assert "UnknownTopicOrPartitionException: Topic 'orders' does not exist.\n" in refused.err
    assert bed.data("/config/topics/orders") is None


def test_a_key_that_is_not_set_cannot_be_deleted(bed: ZooKeeperBed) -> None:
    bed.make("/brokers/topics/orders", data=b'{"version":1,"partitions":{"0":[1]}}')
    refused = configs(bed, "--alter", "--topic", "orders", "--delete-config", "retention.ms")
    assert refused == Printed(1, WARNING, "Invalid config(s): retention.ms\n")


def test_a_broker_is_configured_before_it_starts(bed: ZooKeeperBed) -> None:
    bed.register(1)
    running = configs(bed, "--alter", "--broker", "1", "--add-config", "log.cleaner.threads=2")
    assert "Set(log.cleaner.threads). when broker 1 is running." in running.err
    defaults = configs(bed, "--alter", "--broker-defaults", "--add-config", "log.cleaner.threads=2")
    assert "for default cluster if any broker is running." in defaults.err
    assert configs(bed, "--alter", "--broker", "2", "--add-config", "log.cleaner.threads=2").code == 0
    assert bed.data("/config/brokers/2") == '{"version":1,"config":{"log.cleaner.threads":"2"}}'
    static = configs(bed, "--alter", "--broker", "2", "--add-config", "broker.id=2")
    assert "Cannot update these configs dynamically: Set(broker.id)" in static.err
    throttle = configs(bed, "--alter", "--broker", "1", "--add-config", "leader.replication.throttled.rate=9")
    assert throttle.code == 0


def test_a_brokers_password_is_not_stored_in_clear(bed: ZooKeeperBed) -> None:
    key = "listener.name.internal.ssl.key.password"
    refused = configs(bed, "--alter", "--broker", "2", "--add-config", f"{key}=secret")
    assert refused.code == 1
    assert f"{key} is a password, which this tool cannot encrypt" in refused.err
    assert bed.data("/config/brokers/2") is None


def test_a_quota_of_a_client_of_a_user_has_both_names_in_its_path(bed: ZooKeeperBed) -> None:
    quota = ("--add-config", "producer_byte_rate=1024")
    both = ("--entity-type", "clients", "--entity-name", "app", "--entity-type", "users", "--entity-name", "al ice")
    changed = configs(bed, "--alter", *both, *quota)
    assert changed.out.endswith("for entity: user-principal 'al ice', client-id 'app'.\n")
    assert bed.data("/config/users/al%20ice/clients/app") == '{"version":1,"config":{"producer_byte_rate":"1024"}}'
    configs(bed, "--alter", "--client-defaults", *quota)
    assert bed.data("/config/clients/<default>") is not None
    every = configs(bed, "--describe", "--entity-type", "users", "--entity-type", "clients")
    assert every.out == f"{WARNING}Configs for user-principal 'al ice', client-id 'app' are producer_byte_rate=1024\n"
    # A user without a config of its own is left out.
    assert configs(bed, "--describe", "--entity-type", "users").out == WARNING


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--alter --user bob --add-config no.key=1", "Unknown Dynamic Configuration: HashSet(no.key)."),
        ("--alter --user bob --add-config producer_byte_rate=1.5", "Not a number of type LONG"),
        ("--alter --ip 10.0.0.1 --add-config connection_creation_rate=-1", "Value must be at least 0"),
        ("--describe --entity-type topics --all", "--bootstrap-server must be specified for --all"),
        ("--describe --entity-type broker-loggers", "one of topics,clients,users,brokers,ips with the --zookeeper arg"),
        (
            "--alter --entity-type users --add-config a=b",
            "an entity-name or default entity must be specified with --al",
        ),
    ],
)
def test_what_an_entity_cannot_have_is_refused(bed: ZooKeeperBed, words: str, message: str) -> None:
    refused = configs(bed, *words.split())
    assert refused.code == 1
    assert message in refused.err


def test_the_secret_of_a_user_is_stored_as_brokers_check_it(bed: ZooKeeperBed) -> None:
    # The example of RFC 7677.
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    found = stored("sha256", "pencil", salt, 4096)
    assert found == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert credential("SCRAM-SHA-512", "iterations=5000,password=x", random.Random(1)).endswith(",iterations=5000")
    with pytest.raises(ToolError, match="Iterations 10 is less than the minimum 4096 required for SCRAM_SHA_256"):
        credential("SCRAM-SHA-256", "iterations=10,password=x", random.Random(1))
    assert configs(bed, "--alter", "--user", "bob", "--add-config", "SCRAM-SHA-256=[password=x]").code == 0
    assert '"SCRAM-SHA-256":"salt=' in (bed.data("/config/users/bob") or "")


def test_an_entity_is_named_as_kafkas_tool_does() -> None:
    assert str(entity_of(["topics"], ["t"], alters=True)) == "topic 't'"
    assert str(entity_of(["brokers"], [""], alters=True)) == "default brokers"
    assert str(entity_of(["users", "clients"], ["", ""], alters=True)) == "default user-principal, default client-id"
    assert entity_of(["users", "clients"], ["a"], alters=False).name == "a/clients"
    with pytest.raises(ToolError, match="must be specified with each --entity-type for --alter"):
        entity_of(["users", "clients"], ["a"], alters=True)
