"""Tests of Metadata and DescribeCluster: responses from the metadata cache of a broker."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tests.brokers.harness import BrokerHarness
from tests.brokers.parts import ORDERS
from understudy.brokers.apis import describe_cluster, metadata
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicId
from understudy.foundation.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

UNKNOWN_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAw")


def broker(number: int, *listeners: str) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=number,
        rack=f"r{number}",
        endpoints=tuple(UpdateMetadataEndpoint(host=f"h{number}", port=9092, listener=name) for name in listeners),
    )


CURRENT = UpdateMetadataRequest(
    controller_id=2,
    live_brokers=(broker(1, "PLAINTEXT"), broker(2, "PLAINTEXT", "OTHER"), broker(4, "OTHER")),
    topic_states=(
        UpdateMetadataTopicState(
            topic_name="orders",
            topic_id=ORDERS,
            partition_states=tuple(
                UpdateMetadataPartitionState(
                    partition_index=index,
                    leader=leader,
                    leader_epoch=index + 5,
                    isr=isr,
                    replicas=(1, 2, 3),
                    offline_replicas=(3,),
                )
                for index, leader, isr in ((1, 2, (2,)), (0, 1, (1, 2)), (2, 3, (3,)), (3, 4, (1,)), (4, -1, (1,)))
            ),
        ),
    ),
)


def ask(
    request: MetadataRequest, version: int = 12, cached: UpdateMetadataRequest | None = CURRENT
) -> MetadataResponse:
    async def scenario() -> MetadataResponse:
        harness = BrokerHarness(KafkaConfig(auto_create_topics_enable=False))
        if cached is None:
            harness.metadata = type(harness.metadata)()
            harness.services = harness._services()
        else:
            harness.metadata.update(cached)
        return await metadata.handle(harness.services, request, harness.context(version))

    return asyncio.run(scenario())


def named(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in names))


@pytest.mark.spec("MC-3")
def test_brokers_are_the_live_ones_that_have_the_listener_of_the_request() -> None:
    response = ask(MetadataRequest())
    assert [(at.node_id, at.host, at.rack) for at in response.brokers] == [(1, "h1", "r1"), (2, "h2", "r2")]
    assert (response.controller_id, response.cluster_id) == (2, "cluster")


@pytest.mark.spec("MC-5")
def test_before_the_first_update_metadata_the_response_is_empty() -> None:
    response = ask(MetadataRequest(), cached=None)
    assert (response.brokers, response.controller_id, response.topics) == ((), -1, ())


@pytest.mark.spec("MC-3")
@pytest.mark.parametrize(
    ("version", "listener_error"),
    [(5, Errors.LEADER_NOT_AVAILABLE), (6, Errors.LISTENER_NOT_FOUND), (12, Errors.LISTENER_NOT_FOUND)],
)
def test_each_partition_has_its_leader_or_the_error_that_there_is_none(version: int, listener_error: Errors) -> None:
    [topic] = ask(named("orders"), version).topics
    assert topic.topic_id == ORDERS
    assert [(each.partition_index, each.error_code, each.leader_id) for each in topic.partitions] == [
        (0, Errors.NONE, 1),
        (1, Errors.NONE, 2),
        (2, Errors.LEADER_NOT_AVAILABLE, -1),
        (3, listener_error, -1),
        (4, Errors.LEADER_NOT_AVAILABLE, -1),
    ]
    assert [each.leader_epoch for each in topic.partitions] == [5, 6, 7, 8, 9]
    assert topic.partitions[0].replica_nodes == (1, 2, 3)
    assert topic.partitions[0].offline_replicas == (3,)


@pytest.mark.spec("MC-3")
def test_version_0_leaves_out_unreachable_replicas() -> None:
    [topic] = ask(MetadataRequest(topics=()), 0).topics
    first = topic.partitions[0]
    assert (first.error_code, first.replica_nodes, first.isr_nodes) == (Errors.REPLICA_NOT_AVAILABLE, (1, 2), (1, 2))


@pytest.mark.parametrize(
    ("request_", "version", "topics"),
    [
        (MetadataRequest(topics=None), 12, ["orders"]),
        (MetadataRequest(topics=()), 12, []),
        (MetadataRequest(topics=()), 1, []),
        (MetadataRequest(topics=()), 0, ["orders"]),
    ],
)
def test_requests_for_all_topics(request_: MetadataRequest, version: int, topics: list[str]) -> None:
    assert [topic.name for topic in ask(request_, version).topics] == topics


def test_unknown_topics_are_not_created_without_permission() -> None:
    topics = ask(named("nothing", "..", "bad/name", "__consumer_offsets")).topics
    assert [(topic.name, topic.error_code, topic.is_internal) for topic in topics] == [
        ("nothing", Errors.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("..", Errors.INVALID_TOPIC_EXCEPTION, False),
        ("bad/name", Errors.INVALID_TOPIC_EXCEPTION, False),
        ("__consumer_offsets", Errors.UNKNOWN_TOPIC_OR_PARTITION, True),
    ]


@pytest.mark.parametrize(
    ("asked", "version", "expected"),
    [
        (MetadataRequestTopic(topic_id=ORDERS), 12, (Errors.NONE, "orders")),
        (MetadataRequestTopic(topic_id=UNKNOWN_ID), 12, (Errors.UNKNOWN_TOPIC_ID, None)),
        (MetadataRequestTopic(name=None), 12, (Errors.INVALID_REQUEST, None)),
        (MetadataRequestTopic(topic_id=ORDERS), 11, (Errors.INVALID_REQUEST, "")),
        (MetadataRequestTopic(name=None), 10, (Errors.INVALID_REQUEST, "")),
    ],
)
def test_topics_by_id(asked: MetadataRequestTopic, version: int, expected: tuple[Errors, str | None]) -> None:
    [topic] = ask(MetadataRequest(topics=(asked,)), version).topics
    assert (topic.error_code, topic.name) == expected


def test_a_topic_without_a_name_refuses_the_whole_request_before_version_12() -> None:
    asked = (MetadataRequestTopic(name="orders"), MetadataRequestTopic(name=None))
    response = ask(MetadataRequest(topics=asked), 11)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("orders", 42), ("", 42)]
    assert (response.brokers, response.controller_id) == ((), -1)


def test_refused_request_is_repeated_in_the_response() -> None:
    asked = MetadataRequestTopic(name="orders", topic_id=ORDERS)
    response = ask(MetadataRequest(topics=(asked, asked)), 10)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [("orders", ORDERS, 42)] * 2


def test_ids_are_answered_and_names_beside_them_are_not() -> None:
    asked = (MetadataRequestTopic(name="nothing"), MetadataRequestTopic(name=None, topic_id=ORDERS))
    assert [topic.name for topic in ask(MetadataRequest(topics=asked), 12).topics] == ["orders"]


def test_a_topic_named_many_times_is_answered_once() -> None:
    response = ask(named("orders", *["nothing", "orders"] * 1_000))
    assert [topic.name for topic in response.topics] == ["orders", "nothing"]


def test_without_an_authorizer_every_operation_is_allowed() -> None:
    asked = MetadataRequest(include_cluster_authorized_operations=True, include_topic_authorized_operations=True)
    response = ask(asked, 9)
    assert (response.cluster_authorized_operations, response.topics[0].topic_authorized_operations) == (8096, 3576)
    assert ask(MetadataRequest(), 9).cluster_authorized_operations == -(2**31)


def test_an_unknown_topic_id_has_no_authorized_operations() -> None:
    topics = (MetadataRequestTopic(topic_id=ORDERS), MetadataRequestTopic(topic_id=UNKNOWN_ID))
    response = ask(MetadataRequest(topics=topics, include_topic_authorized_operations=True))
    operations = {topic.topic_id: topic.topic_authorized_operations for topic in response.topics}
    assert operations == {ORDERS: 3576, UNKNOWN_ID: -(2**31)}


def test_describe_cluster_shows_brokers_and_refuses_to_show_controllers() -> None:
    async def scenario(endpoint_type: int) -> DescribeClusterResponse:
        harness = BrokerHarness()
        harness.metadata.update(CURRENT)
        request = DescribeClusterRequest(endpoint_type=endpoint_type)
        return await describe_cluster.handle(harness.services, request, harness.context(1))

    response = asyncio.run(scenario(1))
    assert [at.broker_id for at in response.brokers] == [1, 2]
    assert (response.cluster_id, response.controller_id) == ("cluster", 2)
    refusals = [asyncio.run(scenario(endpoint_type)) for endpoint_type in (2, 7)]
    assert [(refusal.error_code, refusal.error_message, refusal.endpoint_type) for refusal in refusals] == [
        (
            Errors.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            1,
        ),
        (Errors.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7", 1),
    ]


@pytest.mark.parametrize(("controller", "shown"), [(2, 2), (4, -1), (9, -1), (-1, -1)])
def test_describe_cluster_names_no_controller_that_its_listener_does_not_reach(controller: int, shown: int) -> None:
    async def scenario() -> DescribeClusterResponse:
        harness = BrokerHarness()
        harness.metadata.update(replace(CURRENT, controller_id=controller))
        return await describe_cluster.handle(harness.services, DescribeClusterRequest(), harness.context(1))

    assert asyncio.run(scenario()).controller_id == shown
