"""AlterConfigs and IncrementalAlterConfigs over the wire. Apache Kafka 3.9.1 was asked the same, and gave these
answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from understudy.brokers.apis.config_admin_manager import ResourceType
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages import alter_configs, incremental_alter_configs
from understudy.foundation.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from understudy.foundation.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from understudy.foundation.zk.client import Children, Delete, SetData, ZNodeData

TOPIC, BROKER, LOGGER, METRICS = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
)
SET, DELETE, APPEND, SUBTRACT = range(4)
ORDERS = "Invalid config value for resource ConfigResource(type=TOPIC, name='orders'): "
DYNAMIC = (
    "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
)

EMPTY = {"version": 1, "config": {}}

Change = tuple[str, int, str | None]
Answer = tuple[str, str | None]


@pytest.fixture(scope="module")
def running() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=5, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", replication_factor=2)
        cluster.create_topic("other")
        yield cluster


@pytest.fixture
def cluster(running: SimulatedCluster) -> SimulatedCluster:
    """The one cluster, without what earlier tests have configured."""
    topics = [(TOPIC, name, f"topics/{name}", 1) for name in ("orders", "other")]
    brokers = [(BROKER, str(number), f"brokers/{number}", number) for number in running.broker_ids]
    for kind, name, path, broker in (*topics, *brokers, (BROKER, "", "brokers/<default>", 1)):
        if stored(running, path) not in (None, EMPTY):
            assert replace(running, kind, name, {}, broker=broker) == ("NONE", None)
    return running


def resource(kind: int, name: str, *changes: Change) -> incremental_alter_configs.IncrementalAlterConfigsResource:
    return incremental_alter_configs.IncrementalAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            incremental_alter_configs.IncrementalAlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ),
    )


def alter(
    cluster: SimulatedCluster,
    *resources: incremental_alter_configs.IncrementalAlterConfigsResource,
    broker: int = 1,
    validate_only: bool = False,
    version: int = 1,
) -> list[Answer]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    response = cluster.ask(cluster.admin.ask(f"broker-{broker}", 9092, request, version=version))
    assert isinstance(response, IncrementalAlterConfigsResponse)
    assert [(r.resource_type, r.resource_name) for r in response.responses] == [
        (r.resource_type, r.resource_name) for r in resources
    ]
    return [(Errors(answer.error_code).name, answer.error_message) for answer in response.responses]


def replace(
    cluster: SimulatedCluster,
    kind: int,
    name: str,
    configs: dict[str, str | None],
    *,
    broker: int = 1,
    validate_only: bool = False,
) -> Answer:
    altered = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = AlterConfigsRequest(resources=(altered,), validate_only=validate_only)
    response = cluster.ask(cluster.admin.ask(f"broker-{broker}", 9092, request))
    assert isinstance(response, AlterConfigsResponse)
    [answer] = response.responses
    return Errors(answer.error_code).name, answer.error_message


def stored(cluster: SimulatedCluster, path: str) -> object:
    """Return the configs in the znode of an entity; None if there is no znode."""
    node = cluster.zookeeper.tree.get(f"/config/{path}")
    return msgspec.json.decode(node.data) if isinstance(node, ZNodeData) else None


def notifications(cluster: SimulatedCluster) -> list[bytes]:
    listed = cluster.zookeeper.tree.children("/config/changes")
    assert isinstance(listed, Children)
    nodes = [cluster.zookeeper.tree.get(f"/config/changes/{name}") for name in listed.names]
    return [node.data for node in nodes if isinstance(node, ZNodeData)]


REFUSED: Sequence[tuple[int, str, Sequence[Change], Answer]] = (
    (TOPIC, "", [("a", SET, "b")], ("INVALID_REQUEST", "Default topic resources are not allowed.")),
    (TOPIC, "nope", [("a", SET, "b")], ("UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist.")),
    (TOPIC, "../x", [("a", SET, "b")], ("UNKNOWN_TOPIC_OR_PARTITION", "The topic '../x' does not exist.")),
    (TOPIC, "orders", [("x.y", SET, "1")], ("INVALID_CONFIG", "Unknown topic config name: x.y")),
    (
        TOPIC,
        "orders",
        [("retention.ms", SET, "abc")],
        ("INVALID_CONFIG", ORDERS + "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
    ),
    (
        TOPIC,
        "orders",
        [("min.cleanable.dirty.ratio", SET, "2")],
        (
            "INVALID_CONFIG",
            ORDERS + "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
    ),
    (
        TOPIC,
        "orders",
        [("cleanup.policy", SET, "foo,delete")],
        (
            "INVALID_CONFIG",
            ORDERS + "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
    ),
    (
        TOPIC,
        "orders",
        [("compression.gzip.level", SET, "0")],
        (
            "INVALID_CONFIG",
            ORDERS
            + "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
    ),
    (
        TOPIC,
        "orders",
        [("message.format.version", SET, "x")],
        (
            "INVALID_CONFIG",
            ORDERS + "Invalid value x for configuration message.format.version: Version x is not a valid version",
        ),
    ),
    (
        TOPIC,
        "orders",
        [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        ("INVALID_CONFIG", "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"),
    ),
    (
        TOPIC,
        "orders",
        [("remote.log.copy.disable", SET, "true")],
        (
            "INVALID_CONFIG",
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
        ),
    ),
    (
        TOPIC,
        "orders",
        [("retention.ms", SET, None)],
        ("INVALID_REQUEST", "Null value not supported for : retention.ms"),
    ),
    (
        BROKER,
        "2",
        [("log.cleaner.threads", SET, "2")],
        ("INVALID_REQUEST", "Unexpected broker id, expected 1, but received 2"),
    ),
    (BROKER, "x", [("log.cleaner.threads", SET, "2")], ("INVALID_REQUEST", "Node id must be an integer, but it is: x")),
    (
        BROKER,
        "1",
        [("broker.id", SET, "2")],
        ("INVALID_REQUEST", "Cannot update these configs dynamically: Set(broker.id)"),
    ),
    (
        BROKER,
        "1",
        [("ssl.keystore.location", SET, "a")],
        (
            "INVALID_REQUEST",
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "HashSet(ssl.keystore.location)",
        ),
    ),
    (
        BROKER,
        "",
        [("listeners", SET, "PLAINTEXT://:1")],
        (
            "INVALID_REQUEST",
            "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
        ),
    ),
    (
        BROKER,
        "1",
        [("log.cleaner.threads", SET, "x")],
        ("INVALID_REQUEST", "Invalid value x for configuration log.cleaner.threads: Not a number of type INT"),
    ),
    (
        BROKER,
        "1",
        [("num.io.threads", SET, "100")],
        (
            "INVALID_REQUEST",
            DYNAMIC.format(
                "Dynamic thread count update validation failed for num.io.threads=100, "
                "value should not be greater than double the current value 8"
            ),
        ),
    ),
    (
        BROKER,
        "1",
        [("log.cleaner.threads", APPEND, "2")],
        ("INVALID_CONFIG", "Config value append is not allowed for config key: log.cleaner.threads"),
    ),
    (
        BROKER,
        "1",
        [("listener.name.plaintext.ssl.keystore.password", SET, "secret")],
        (
            "INVALID_CONFIG",
            "Invalid config value for resource ConfigResource(type=BROKER, name='1'): "
            "Password encoder secret not configured",
        ),
    ),
    (LOGGER, "2", [("root", SET, "INFO")], ("INVALID_REQUEST", "Unexpected node id. Expected 1, but received 2")),
    (LOGGER, "1", [("no.such", SET, "INFO")], ("INVALID_CONFIG", "Logger no.such does not exist!")),
    (
        METRICS,
        "s",
        [("interval.ms", SET, "1")],
        (
            "INVALID_REQUEST",
            "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
        ),
    ),
    (99, "g", [("a", SET, "b")], ("INVALID_REQUEST", "Unknown resource type 99")),
    (
        TOPIC,
        "nowhere",
        [("flush.ms", APPEND, "1")],
        ("INVALID_CONFIG", "Config value append is not allowed for config key: flush.ms"),
    ),
    (
        BROKER,
        "1",
        [("log.roll.ms", SET, "0")],
        ("INVALID_REQUEST", "requirement failed: log.roll.ms must be greater than or equal to 1"),
    ),
    (
        BROKER,
        "",
        [("log.roll.jitter.ms", SET, "-1")],
        ("INVALID_REQUEST", "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"),
    ),
    (
        BROKER,
        "1",
        [("log.cleaner.dedupe.buffer.size", SET, "1048576")],
        (
            "INVALID_REQUEST",
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
    ),
)


@pytest.mark.spec("CF-8")
@pytest.mark.parametrize(
    ("kind", "name", "changes", "answer"), REFUSED, ids=[f"{row[1]}-{row[2][0]}" for row in REFUSED]
)
def test_refusals_have_kafkas_error_and_message(
    cluster: SimulatedCluster, kind: int, name: str, changes: Sequence[Change], answer: Answer
) -> None:
    before = len(cluster.zookeeper.transactions)
    assert alter(cluster, resource(kind, name, *changes)) == [answer]
    assert len(cluster.zookeeper.transactions) == before


@pytest.mark.spec("CF-8")
@pytest.mark.spec("TC-1")
@pytest.mark.spec("CF-1")
@pytest.mark.parametrize("broker", [1, 2, 3])
def test_any_broker_writes_a_topics_config_and_announces_it(cluster: SimulatedCluster, broker: int) -> None:
    announced = len(notifications(cluster))
    change = resource(TOPIC, "orders", ("retention.ms", SET, str(broker)), ("flush.ms", SET, "5"))
    assert alter(cluster, change, broker=broker, version=broker % 2) == [("NONE", None)]
    assert stored(cluster, "topics/orders") == {"version": 1, "config": {"retention.ms": str(broker), "flush.ms": "5"}}
    assert notifications(cluster)[announced:] == [b'{"version":2,"entity_path":"topics/orders"}']
    session_id = cluster.zookeeper.transactions[-1].session_id
    assert session_id == cluster.broker(broker).session_id


@pytest.mark.spec("CF-8")
def test_one_bad_resource_does_not_affect_the_others(cluster: SimulatedCluster) -> None:
    answers = alter(
        cluster,
        resource(TOPIC, "nope", ("retention.ms", SET, "1")),
        resource(TOPIC, "other", ("retention.ms", SET, "4")),
        resource(TOPIC, "orders", ("retention.ms", SET, "bad")),
        resource(BROKER, "", ("background.threads", SET, "5")),
    )
    assert [error for error, _ in answers] == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE", "INVALID_CONFIG", "NONE"]
    assert stored(cluster, "topics/other") == {"version": 1, "config": {"retention.ms": "4"}}
    assert stored(cluster, "brokers/<default>") == {"version": 1, "config": {"background.threads": "5"}}


@pytest.mark.spec("CF-8")
def test_a_resource_named_twice_is_refused_each_time(cluster: SimulatedCluster) -> None:
    twice = resource(TOPIC, "orders", ("retention.ms", SET, "1"))
    refused = ("INVALID_REQUEST", "Each resource must appear at most once.")
    good = resource(TOPIC, "other", ("flush.ms", SET, "9"))
    assert alter(cluster, twice, good, twice) == [refused, ("NONE", None), refused]


@pytest.mark.spec("CF-8")
def test_validate_only_changes_nothing(cluster: SimulatedCluster) -> None:
    before = len(cluster.zookeeper.transactions)
    good = [resource(TOPIC, "orders", ("retention.ms", SET, "1")), resource(BROKER, "1", ("num.io.threads", SET, "9"))]
    assert (
        alter(cluster, *good, resource(LOGGER, "1", ("root", SET, "DEBUG")), validate_only=True) == [("NONE", None)] * 3
    )
    assert replace(cluster, TOPIC, "orders", {"retention.ms": "1"}, validate_only=True) == ("NONE", None)
    assert len(cluster.zookeeper.transactions) == before
    assert cluster.ask(cluster.admin.describe_config(LOGGER, "1"))["root"].value == "INFO"


@pytest.mark.spec("CF-1")
@pytest.mark.spec("ZN-10")
def test_an_emptied_config_stays_as_an_empty_one(cluster: SimulatedCluster) -> None:
    for kind, name, path in (
        (TOPIC, "other", "topics/other"),
        (BROKER, "2", "brokers/2"),
        (BROKER, "", "brokers/<default>"),
    ):
        alter(cluster, resource(kind, name, ("min.insync.replicas", SET, "2")), broker=2)
        assert alter(cluster, resource(kind, name, ("min.insync.replicas", DELETE, None)), broker=2) == [("NONE", None)]
        assert stored(cluster, path) == EMPTY


@pytest.mark.spec("CF-8")
def test_the_old_request_replaces_the_whole_config(cluster: SimulatedCluster) -> None:
    alter(cluster, resource(TOPIC, "other", ("retention.ms", SET, "1"), ("flush.ms", SET, "2")))
    assert replace(cluster, TOPIC, "other", {"segment.bytes": "100"}) == ("NONE", None)
    assert stored(cluster, "topics/other") == {"version": 1, "config": {"segment.bytes": "100"}}
    assert replace(cluster, TOPIC, "other", {"retention.ms": None}) == (
        "INVALID_REQUEST",
        "Null value not supported for : retention.ms",
    )
    assert replace(cluster, LOGGER, "1", {"root": "INFO"}) == ("INVALID_REQUEST", "Unknown resource type 8")


@pytest.mark.spec("RA-17")
def test_a_throttle_is_set_and_removed_as_kafkas_tool_does(cluster: SimulatedCluster) -> None:
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    replicas = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
    topic, broker = "orders", str(1)
    on = [
        resource(BROKER, broker, *[(name, SET, "1000000") for name in rates]),
        resource(TOPIC, topic, (replicas[0], SET, "0:1,0:2"), (replicas[1], SET, "*")),
    ]
    assert alter(cluster, *on) == [("NONE", None)] * 2
    cluster.run_for(1_000)
    running = cluster.broker(1).instance
    assert running is not None
    assert [running.dynamic.broker_layer.get(name) for name in rates] == ["1000000"] * 2
    off = [
        resource(BROKER, broker, *[(name, DELETE, None) for name in rates]),
        resource(TOPIC, topic, *[(name, DELETE, None) for name in replicas]),
    ]
    assert alter(cluster, *off) == [("NONE", None)] * 2
    cluster.run_for(1_000)
    assert [running.dynamic.broker_layer.get(name) for name in rates] == [None] * 2
    [(error, message)] = alter(cluster, resource(TOPIC, topic, (replicas[0], SET, "zero:one")))
    assert error == "INVALID_CONFIG"
    assert message is not None
    assert "[partitionId]:[brokerId]" in message


@pytest.mark.spec("CF-8")
def test_two_changes_at_the_same_time_are_both_kept(cluster: SimulatedCluster) -> None:
    """Kafka keeps the one that was written last."""
    cluster.create_topic("contended")
    keys = ("retention.ms", "flush.ms", "segment.ms")

    async def all_at_once() -> list[object]:
        changes = [
            cluster.admin.with_bootstrap(f"broker-{broker}:9092").alter_config(TOPIC, "contended", {key: str(number)})
            for broker in (1, 2, 3)
            for number, key in enumerate(keys, start=broker)
        ]
        return list(await asyncio.gather(*changes))

    cluster.ask(all_at_once())
    config = stored(cluster, "topics/contended")
    assert isinstance(config, dict)
    assert sorted(config["config"]) == sorted(keys)


@pytest.mark.spec("ZN-9")
def test_nothing_is_written_under_a_kraft_controller(cluster: SimulatedCluster) -> None:
    before = stored(cluster, "topics/orders")
    cluster.zookeeper.operate([SetData("/controller", b'{"version":2,"brokerid":3000,"kraftControllerEpoch":5}')])
    [(error, message)] = alter(cluster, resource(TOPIC, "orders", ("retention.ms", SET, "77")))
    cluster.zookeeper.operate([Delete("/controller")])
    cluster.settle()
    assert error == "STALE_CONTROLLER_EPOCH"
    assert message is not None
    assert "KRaft" in message
    assert stored(cluster, "topics/orders") == before


@pytest.mark.spec("CF-8")
def test_the_level_of_a_logger_changes_while_the_broker_runs(cluster: SimulatedCluster) -> None:
    name = "kafka.controller.KafkaController"
    assert alter(cluster, resource(LOGGER, "1", ("kafka", SET, "WARN"), (name, SET, "DEBUG"))) == [("NONE", None)]
    shown = cluster.ask(cluster.admin.describe_config(LOGGER, "1"))
    levels = {logger: shown[logger].value for logger in ("root", "kafka.zk.KafkaZkClient", name)}
    assert levels == {"root": "INFO", "kafka.zk.KafkaZkClient": "WARN", name: "DEBUG"}
    assert alter(cluster, resource(LOGGER, "1", ("kafka", DELETE, None), (name, DELETE, None))) == [("NONE", None)]
    assert {config.value for config in cluster.ask(cluster.admin.describe_config(LOGGER, "1")).values()} == {"INFO"}
    assert alter(cluster, resource(LOGGER, "1", (name, APPEND, "INFO"))) == [
        ("INVALID_REQUEST", "APPEND operation is not allowed for the BROKER_LOGGER resource")
    ]
    assert alter(cluster, resource(LOGGER, "1", ("root", DELETE, None))) == [
        ("INVALID_REQUEST", "Removing the log level of the root logger is not allowed")
    ]
