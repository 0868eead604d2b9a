"""Tests of DeleteTopics: errors of the handler alone, and deletions in a simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias, cast

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.parts import ME, ORDERS
from understudy.brokers.apis import delete_topics
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.cluster.leadership import LEADER_DURING_DELETE
from understudy.foundation.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from understudy.foundation.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from understudy.foundation.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from understudy.foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure

UNKNOWN_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAg")

Answer: TypeAlias = tuple[str | None, TopicId, str]


def answers(response: Message) -> list[Answer]:
    assert isinstance(response, DeleteTopicsResponse)
    return [(result.name, result.topic_id, Errors(result.error_code).name) for result in response.responses]


def by_name(*names: str | None, timeout_ms: int = 5_000) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=name) for name in names), timeout_ms=timeout_ms)


def by_id(*topic_ids: TopicId, timeout_ms: int = 5_000) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=tuple(DeleteTopicState(topic_id=topic_id) for topic_id in topic_ids), timeout_ms=timeout_ms
    )


# ------------------------------------------------------------------ errors, without ZooKeeper


def refused(
    request: DeleteTopicsRequest, version: int = 6, *, active: bool = True, enabled: bool = True
) -> list[Answer]:
    async def scenario() -> Message:
        harness = BrokerHarness(KafkaConfig(delete_topic_enable=enabled))
        harness.controller.is_active = active
        harness.controller.topic_names = {ORDERS: "orders"}
        harness.update_metadata({"payments": {0: ME}})
        return await delete_topics.handle(harness.services, request, harness.context(version))

    return answers(asyncio.run(scenario()))


@pytest.mark.spec("TX-1", "TC-1")
def test_only_the_controller_deletes_topics() -> None:
    assert refused(by_name("payments", "nosuch"), active=False, enabled=False) == [
        ("payments", NO_TOPIC_ID, "NOT_CONTROLLER"),
        ("nosuch", NO_TOPIC_ID, "NOT_CONTROLLER"),
    ]
    assert refused(by_id(ORDERS), active=False) == [(None, ORDERS, "NOT_CONTROLLER")]


@pytest.mark.spec("TX-1")
@pytest.mark.parametrize(
    ("version", "error"),
    [(0, "INVALID_REQUEST"), (2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED"), (5, "TOPIC_DELETION_DISABLED")],
)
def test_disabled_deletion_is_refused_with_the_error_of_the_version(version: int, error: str) -> None:
    request = DeleteTopicsRequest(topic_names=("payments",), timeout_ms=1)
    assert refused(request, version, enabled=False) == [("payments", NO_TOPIC_ID, error)]


@pytest.mark.spec("TX-1")
def test_topic_with_name_and_id_refuses_the_whole_request() -> None:
    both = DeleteTopicState(name="payments", topic_id=ORDERS)
    assert refused(DeleteTopicsRequest(topics=(both, DeleteTopicState(name="payments")))) == [
        ("payments", ORDERS, "INVALID_REQUEST"),
        ("payments", NO_TOPIC_ID, "INVALID_REQUEST"),
    ]


@pytest.mark.spec("TX-1")
def test_unknown_topics_are_answered_with_an_error() -> None:
    asked = DeleteTopicsRequest(
        topics=(
            DeleteTopicState(topic_id=UNKNOWN_ID),
            DeleteTopicState(name="nosuch"),
            DeleteTopicState(name="../ids/1"),
            # the controller still knows it, the metadata cache does not: it is being deleted
            DeleteTopicState(topic_id=ORDERS),
            DeleteTopicState(),
        )
    )
    assert refused(asked) == [
        (None, UNKNOWN_ID, "UNKNOWN_TOPIC_ID"),
        ("nosuch", NO_TOPIC_ID, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("../ids/1", NO_TOPIC_ID, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("orders", ORDERS, "UNKNOWN_TOPIC_OR_PARTITION"),
        (None, NO_TOPIC_ID, "TOPIC_AUTHORIZATION_FAILED"),
    ]


# ------------------------------------------------------------------ markers, and the wait


class Markers:
    """The part of `KafkaZkClient` that the handler uses: `orders` and `payments` exist, `payments` has a marker."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.marked = ["payments"]
        self._failure = failure

    @property
    def topics(self) -> Markers:
        return self

    @property
    def topic_deletions(self) -> Markers:
        return self

    async def exists(self, topic: str) -> bool:
        return topic in ("orders", "payments")

    async def mark(self, topic: str) -> bool:
        if self._failure is not None:
            raise self._failure
        if topic in self.marked:
            return False
        self.marked.append(topic)
        return True


def asked_of(markers: Markers, request: DeleteTopicsRequest, *, forget: str = "") -> list[Answer]:
    """The results of the handler if the topic `forget` leaves the metadata cache while it waits."""

    async def scenario() -> Message:
        harness = BrokerHarness()
        harness.update_metadata({topic: {0: ME} for topic in ("orders", "payments", "vanished")})
        services = replace(harness.services, zk=lambda: cast(KafkaZkClient, markers))
        answer = asyncio.create_task(delete_topics.handle(services, request, harness.context(6)))
        await asyncio.sleep(0.005)
        if forget:
            harness.update_metadata({forget: {0: LEADER_DURING_DELETE}})
        return await answer

    return answers(asyncio.run(scenario()))


@pytest.mark.spec("TX-1")
def test_topics_are_marked_once_and_each_is_waited_for() -> None:
    markers = Markers()
    assert asked_of(markers, by_name("orders", "vanished", "payments", timeout_ms=50), forget="payments") == [
        ("orders", NO_TOPIC_ID, "REQUEST_TIMED_OUT"),
        ("vanished", NO_TOPIC_ID, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("payments", NO_TOPIC_ID, "NONE"),
    ]
    assert markers.marked == ["payments", "orders"]


@pytest.mark.spec("TX-1")
@pytest.mark.parametrize(
    "failure", [SessionLost("gone"), ZooKeeperFailure(Failure.NO_AUTH, "/admin/delete_topics/orders")]
)
def test_a_topic_that_cannot_be_marked_is_not_waited_for(failure: Exception) -> None:
    assert asked_of(Markers(failure), by_name("orders", timeout_ms=60_000)) == [
        ("orders", NO_TOPIC_ID, "UNKNOWN_SERVER_ERROR")
    ]


# ------------------------------------------------------------------ in a simulated cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(seed=1, brokers=3) as cluster:
        cluster.start()
        yield cluster


def ask(cluster: SimulatedCluster, request: Message, *, version: int | None = None) -> Message:
    return cluster.ask(cluster.admin.ask(f"broker-{cluster.controller_id()}", 9092, request, version=version))


def left_of(cluster: SimulatedCluster, topic: str) -> list[str]:
    parents = ("/brokers/topics", "/config/topics", "/admin/delete_topics")
    return [parent for parent in parents if topic in cluster.znodes.children(parent)]


@pytest.mark.spec("TX-1")
@pytest.mark.parametrize("version", range(7))
def test_a_topic_is_deleted_in_every_version(cluster: SimulatedCluster, version: int) -> None:
    name = f"orders-{version}"
    cluster.create_topic(name)
    request = (
        by_name(name, "nosuch") if version == 6 else DeleteTopicsRequest(topic_names=(name, "nosuch"), timeout_ms=5_000)
    )
    assert answers(ask(cluster, request, version=version)) == [
        (name, NO_TOPIC_ID, "NONE"),
        ("nosuch", NO_TOPIC_ID, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    metadata = cluster.ask(cluster.admin.metadata([name]))
    assert [topic.error_code for topic in metadata.topics] == [Errors.UNKNOWN_TOPIC_OR_PARTITION]
    cluster.run_for(2_000)
    assert left_of(cluster, name) == []


@pytest.mark.spec("TX-1")
def test_topic_that_is_requested_by_id_and_by_name_is_deleted_once(cluster: SimulatedCluster) -> None:
    cluster.create_topic("orders")
    (found,) = cluster.ask(cluster.admin.metadata(["orders"])).topics
    twice = DeleteTopicsRequest(
        topics=(DeleteTopicState(topic_id=found.topic_id), DeleteTopicState(name="orders")), timeout_ms=5_000
    )
    assert answers(ask(cluster, twice)) == [("orders", found.topic_id, "NONE"), ("orders", NO_TOPIC_ID, "NONE")]
    cluster.run_for(2_000)
    assert left_of(cluster, "orders") == []


@pytest.mark.spec("TX-1")
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_a_timeout_the_response_is_timed_out_although_the_topic_is_deleted(
    cluster: SimulatedCluster, timeout_ms: int
) -> None:
    name = f"hasty{timeout_ms}"
    cluster.create_topic(name)
    assert answers(ask(cluster, by_name(name, timeout_ms=timeout_ms))) == [(name, NO_TOPIC_ID, "REQUEST_TIMED_OUT")]
    cluster.run_for(2_000)
    assert left_of(cluster, name) == []


@pytest.mark.spec("TX-1")
def test_the_admin_client_raises_the_error_of_a_refusal(cluster: SimulatedCluster) -> None:
    cluster.create_topic("existing")
    with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION: nosuch"):
        cluster.ask(cluster.admin.delete_topics("existing", "nosuch"))
    cluster.run_for(2_000)
    assert left_of(cluster, "existing") == []


@pytest.mark.spec("TX-1")
def test_two_clients_wait_for_the_same_deletion(cluster: SimulatedCluster) -> None:
    cluster.create_topic("wanted")
    results: list[list[Answer]] = []

    async def delete() -> None:
        results.append(answers(await cluster.admin.ask(f"broker-{cluster.controller_id()}", 9092, by_name("wanted"))))

    async def both() -> None:
        await asyncio.gather(delete(), delete())

    cluster.ask(both())
    assert results == [[("wanted", NO_TOPIC_ID, "NONE")]] * 2


@pytest.mark.spec("TD-11", "TC-4", "TP-1", "PE-2")
def test_topic_marked_for_deletion_cannot_be_created_extended_or_elected() -> None:
    with SimulatedCluster(seed=1, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("marked", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
        gone = next(broker for broker in (3, 2) if broker != cluster.controller_id())
        cluster.broker(gone).kill()
        cluster.run_for(10_000)
        assert answers(ask(cluster, by_name("marked"))) == [("marked", NO_TOPIC_ID, "NONE")]
        cluster.run_for(2_000)

        again = CreatableTopic(name="marked", num_partitions=1, replication_factor=1)
        created = ask(cluster, CreateTopicsRequest(topics=(again,), timeout_ms=1_000))
        assert isinstance(created, CreateTopicsResponse)
        assert [(topic.error_code, topic.error_message) for topic in created.topics] == [
            (Errors.TOPIC_ALREADY_EXISTS, "Topic 'marked' is marked for deletion.")
        ]
        grown = ask(
            cluster, CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="marked", count=5),), timeout_ms=1_000)
        )
        assert isinstance(grown, CreatePartitionsResponse)
        assert [(topic.error_code, topic.error_message) for topic in grown.results] == [
            (Errors.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        ]
        election = ElectLeadersRequest(
            topic_partitions=(TopicPartitions(topic="marked", partitions=(0,)),), timeout_ms=1_000
        )
        elected = ask(cluster, election)
        assert isinstance(elected, ElectLeadersResponse)
        assert [
            (partition.error_code, partition.error_message)
            for result in elected.replica_election_results
            for partition in result.partition_result
        ] == [(Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")]
        assert answers(ask(cluster, by_name("marked"))) == [("marked", NO_TOPIC_ID, "UNKNOWN_TOPIC_OR_PARTITION")]

        cluster.broker(gone).begin_start()
        cluster.run_for(10_000)
        assert left_of(cluster, "marked") == []
        cluster.create_topic("marked")
        assert cluster.leader_id("marked", 0) is not None
