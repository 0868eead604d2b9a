"""Tests of DescribeConfigs for topics, brokers and loggers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from understudy.brokers.apis import describe_configs
from understudy.brokers.config import description
from understudy.brokers.config.description import Described
from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.brokers.config.dynamic_keys import BROKER_KEYS
from understudy.brokers.config.topic_config import TOPIC_TABLE
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import MALFORMED_REQUEST, Errors
from understudy.foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from understudy.foundation.zk.client import SetData

TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=1, brokers=1, settings={"min.insync.replicas": "2"}) as cluster:
        cluster.start()
        cluster.ask(
            cluster.admin.create_topic("orders", partitions=1, replication_factor=1, configs={"retention.ms": "7"})
        )
        yield cluster


def describe(
    cluster: SimulatedCluster,
    kind: int,
    name: str,
    *keys: str,
    version: int = 4,
    include_synonyms: bool = False,
    include_documentation: bool = False,
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys or None)
    request = DescribeConfigsRequest(
        resources=(resource,), include_synonyms=include_synonyms, include_documentation=include_documentation
    )
    response = cluster.ask(cluster.admin.ask("broker-1", 9092, request, version=version))
    assert isinstance(response, DescribeConfigsResponse)
    return response.results[0]


def test_a_resource_named_many_times_is_answered_once(cluster: SimulatedCluster) -> None:
    one = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=("broker.id",))
    other = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=("listeners",))
    response = cluster.ask(
        cluster.admin.ask("broker-1", 9092, DescribeConfigsRequest(resources=(one, other) * 500), version=4)
    )
    assert isinstance(response, DescribeConfigsResponse)
    assert [result.configs[0].name for result in response.results] == ["broker.id", "listeners"]


def test_a_resource_requested_with_different_keys_is_looked_up_once(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[DynamicBrokerConfig] = []

    def describe_broker(dynamic: DynamicBrokerConfig) -> Iterator[Described]:
        looked_up.append(dynamic)
        return description.describe_broker(dynamic)

    monkeypatch.setattr(describe_configs, "describe_broker", describe_broker)
    resources = tuple(
        DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=("broker.id", f"x{number}"))
        for number in range(50)
    )
    response = cluster.ask(cluster.admin.ask("broker-1", 9092, DescribeConfigsRequest(resources=resources), version=4))
    assert isinstance(response, DescribeConfigsResponse)
    assert [config.name for result in response.results for config in result.configs] == ["broker.id"] * 50
    assert len(looked_up) == 1, "each costs milliseconds, and a request has room for a hundred thousand"


@pytest.mark.spec("IO-17")
@pytest.mark.parametrize("version", range(5))
def test_a_topic_shows_its_own_the_brokers_and_the_default_values(cluster: SimulatedCluster, version: int) -> None:
    result = describe(cluster, TOPIC, "orders", version=version)
    assert (result.error_code, result.resource_name) == (Errors.NONE, "orders")
    assert [config.name for config in result.configs] == sorted(TOPIC_TABLE)
    shown = {config.name: config for config in result.configs}
    values = {
        name: shown[name].value for name in ("retention.ms", "min.insync.replicas", "segment.bytes", "cleanup.policy")
    }
    assert values == {
        "retention.ms": "7",
        "min.insync.replicas": "2",
        "segment.bytes": "1073741824",
        "cleanup.policy": "delete",
    }
    assert not any(config.is_default for config in result.configs), "Kafka never sets it"
    if version > 0:
        assert [shown[name].config_source for name in ("retention.ms", "min.insync.replicas", "segment.bytes")] == [
            1,
            4,
            5,
        ]


@pytest.mark.parametrize("kind", [0, 1, 3, 32, -1])
def test_an_unknown_resource_type_refuses_the_whole_request(cluster: SimulatedCluster, kind: int) -> None:
    """Kafka also checks all resource types before it describes a resource."""
    resources = tuple(DescribeConfigsResource(resource_type=each, resource_name="orders") for each in (TOPIC, kind))
    response = cluster.ask(cluster.admin.ask("broker-1", 9092, DescribeConfigsRequest(resources=resources), version=4))
    assert isinstance(response, DescribeConfigsResponse)
    assert [
        (result.resource_type, result.error_code, result.error_message, result.configs) for result in response.results
    ] == [
        (TOPIC, Errors.INVALID_REQUEST, MALFORMED_REQUEST, ()),
        (kind, Errors.INVALID_REQUEST, MALFORMED_REQUEST, ()),
    ]


@pytest.mark.parametrize("asked", [False, True])
def test_a_logger_has_a_level_and_an_empty_documentation(cluster: SimulatedCluster, asked: bool) -> None:
    [root] = describe(cluster, LOGGER, "1", "root", include_documentation=asked).configs
    assert (root.value, root.config_source, root.config_type, root.documentation) == ("INFO", 6, 0, "")


def test_an_unreadable_config_does_not_affect_other_resources(cluster: SimulatedCluster) -> None:
    cluster.ask(cluster.admin.create_topic("scrawled", partitions=1, replication_factor=1))
    scrawl = b'{"version":1,"config":{"retention.ms":"soon"}}'
    assert cluster.zookeeper.operate([SetData("/config/topics/scrawled", scrawl)])
    resources = tuple(
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in ("scrawled", "orders")
    )
    response = cluster.ask(cluster.admin.ask("broker-1", 9092, DescribeConfigsRequest(resources=resources), version=4))
    assert isinstance(response, DescribeConfigsResponse)
    assert [result.error_code for result in response.results] == [Errors.UNKNOWN_SERVER_ERROR, Errors.NONE]
    assert (
        response.results[0].error_message
        == "Invalid value soon for configuration retention.ms: Not a number of type LONG"
    )


@pytest.mark.spec("CF-7")
def test_a_broker_shows_every_key_of_kafkas(cluster: SimulatedCluster) -> None:
    result = describe(cluster, BROKER, "1")
    assert [config.name for config in result.configs] == sorted(
        name for name, key in BROKER_KEYS.items() if not key.internal or name == "understudy.run.id"
    )
    shown = {config.name: config for config in result.configs}
    assert (shown["broker.id"].value, shown["broker.id"].read_only) == ("1", True)
    assert (shown["auto.leader.rebalance.enable"].value, shown["auto.leader.rebalance.enable"].config_type) == (
        "true",
        1,
    )
    assert shown["broker.rack"].value is None
    assert shown["unclean.leader.election.enable"].read_only is False


def test_only_the_requested_keys_and_details_are_returned(cluster: SimulatedCluster) -> None:
    result = describe(cluster, TOPIC, "orders", "retention.ms", include_synonyms=True, include_documentation=True)
    [retention] = result.configs
    assert [(synonym.name, synonym.value, synonym.source) for synonym in retention.synonyms] == [
        ("retention.ms", "7", 1)
    ]
    [segment] = describe(cluster, TOPIC, "orders", "segment.bytes", include_synonyms=True).configs
    assert [(synonym.name, synonym.value, synonym.source) for synonym in segment.synonyms] == [
        ("log.segment.bytes", "1073741824", 5)
    ]
    assert retention.documentation == TOPIC_TABLE["retention.ms"].doc
    [plain] = describe(cluster, TOPIC, "orders", "retention.ms").configs
    assert (plain.synonyms, plain.documentation) == ((), None)


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "nothing", Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "../x", Errors.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", Errors.INVALID_REQUEST),
        (BROKER, "one", Errors.INVALID_REQUEST),
        (LOGGER, "2", Errors.INVALID_REQUEST),
        (LOGGER, "", Errors.INVALID_REQUEST),
        (16, "", Errors.INVALID_REQUEST),
        (16, "mine", Errors.INVALID_REQUEST),
        (99, "", Errors.INVALID_REQUEST),
    ],
)
def test_resources_of_other_brokers_and_kinds_are_refused(
    cluster: SimulatedCluster, kind: int, name: str, error: Errors
) -> None:
    result = describe(cluster, kind, name)
    assert (result.error_code, result.resource_type, result.configs) == (error, kind, ())


def test_there_are_no_dynamic_defaults(cluster: SimulatedCluster) -> None:
    assert describe(cluster, BROKER, "").configs == ()
