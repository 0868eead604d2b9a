"""Tests of FindCoordinator: every broker names the coordinator from its metadata cache; a missing topic is created."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import find_coordinator
from understudy.brokers.apis.no_transactions import NO_TRANSACTIONS
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.errors import MALFORMED_REQUEST, Errors
from understudy.foundation.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
SINGLE, MANY = range(4), range(4, 7)
NOWHERE = (-1, "", -1)
LEADERS = {
    "__consumer_offsets": {12: 2, 40: 3, 48: -1, 17: 9},
    "__transaction_state": {12: 3},
}
"""my-group is at 12, group1 at 40, test at 48, orders-service at 17; only brokers 1 to 3 are alive."""


def ask(
    request: FindCoordinatorRequest,
    version: int,
    leaders: Mapping[str, dict[int, int]] = LEADERS,
    moved: UpdateMetadataRequest | None = None,
) -> FindCoordinatorResponse:
    async def scenario() -> FindCoordinatorResponse:
        harness = BrokerHarness()
        harness.update_metadata(dict(leaders))
        if moved is not None:
            harness.metadata.update(moved)
        return await find_coordinator.handle(harness.services, request, harness.context(version))

    return asyncio.run(scenario())


def single(key: str, version: int, *, key_type: int = GROUP) -> tuple[str, tuple[int, str, int]]:
    answer = ask(FindCoordinatorRequest(key=key, key_type=key_type), version)
    assert answer.coordinators == ()
    return Errors(answer.error_code).name, (answer.node_id, answer.host, answer.port)


def many(keys: Sequence[str], version: int, *, key_type: int = GROUP) -> list[tuple[str, str, tuple[int, str, int]]]:
    answer = ask(FindCoordinatorRequest(coordinator_keys=tuple(keys), key_type=key_type), version)
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 0, "", 0)
    return [(at.key, Errors(at.error_code).name, (at.node_id, at.host, at.port)) for at in answer.coordinators]


@pytest.mark.spec("CO-3")
@pytest.mark.parametrize("version", SINGLE)
def test_one_key_is_answered_by_the_leader_of_its_partition(version: int) -> None:
    assert single("my-group", version) == ("NONE", (2, "h2", 9092))
    assert single("my-group", version, key_type=TRANSACTION) == ("NONE", (3, "h3", 9092))


@pytest.mark.spec("CO-3")
@pytest.mark.parametrize("version", MANY)
def test_many_keys_are_answered_in_the_order_of_the_request(version: int) -> None:
    assert many(["group1", "my-group", "test", "group1"], version) == [
        ("group1", "NONE", (3, "h3", 9092)),
        ("my-group", "NONE", (2, "h2", 9092)),
        ("test", "COORDINATOR_NOT_AVAILABLE", NOWHERE),
        ("group1", "NONE", (3, "h3", 9092)),
    ]
    assert many([], version) == []
    assert many(["my-group"], version, key_type=TRANSACTION) == [("my-group", "NONE", (3, "h3", 9092))]


@pytest.mark.spec("CO-3")
@pytest.mark.parametrize(
    "group",
    [
        pytest.param("test", id="the partition has no leader"),
        pytest.param("orders-service", id="the leader is dead"),
        pytest.param("connect-cluster", id="the partition is not known"),
    ],
)
def test_partition_without_a_live_leader_has_no_coordinator(group: str) -> None:
    assert single(group, 3) == ("COORDINATOR_NOT_AVAILABLE", NOWHERE)
    assert many([group], 4) == [(group, "COORDINATOR_NOT_AVAILABLE", NOWHERE)]


@pytest.mark.spec("CO-3")
def test_leader_without_the_listener_of_the_request_is_no_coordinator() -> None:
    def moved_to(listener: str) -> UpdateMetadataRequest:
        at = UpdateMetadataEndpoint(host="elsewhere", port=7, listener=listener)
        return UpdateMetadataRequest(live_brokers=(UpdateMetadataBroker(id=2, endpoints=(at,)),))

    asked = FindCoordinatorRequest(key="my-group")
    assert ask(asked, 0, moved=moved_to("INTERNAL")).error_code == Errors.COORDINATOR_NOT_AVAILABLE
    assert ask(asked, 0, moved=moved_to("PLAINTEXT")).host == "elsewhere"


@pytest.mark.spec("CO-3")
@pytest.mark.parametrize(("key_type", "version"), [(3, 1), (-1, 3), (SHARE, 1), (SHARE, 3)])
def test_an_unknown_coordinator_type_is_refused(key_type: int, version: int) -> None:
    answer = ask(FindCoordinatorRequest(key="k", key_type=key_type), version)
    assert (answer.error_code, answer.node_id, answer.port) == (Errors.INVALID_REQUEST, -1, -1)
    assert answer.error_message == MALFORMED_REQUEST


@pytest.mark.spec("CO-3")
@pytest.mark.parametrize(
    ("key_type", "version", "error"),
    [
        (3, 4, "INVALID_REQUEST"),
        (-1, 6, "INVALID_REQUEST"),
        (SHARE, 5, "INVALID_REQUEST"),
        (SHARE, 6, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_type_without_coordinators_is_refused_for_every_key(key_type: int, version: int, error: str) -> None:
    assert many(["a", "b"], version, key_type=key_type) == [("a", error, NOWHERE), ("b", error, NOWHERE)]
    answer = ask(FindCoordinatorRequest(coordinator_keys=("a",), key_type=key_type), version)
    assert answer.coordinators[0].error_message == ("" if key_type == SHARE else MALFORMED_REQUEST)


@pytest.mark.parametrize("version", [*SINGLE[1:], *MANY])
def test_a_transactional_id_is_refused_with_the_reason_by_an_error_that_ends_the_client(version: int) -> None:
    """librdkafka, in version 2, tries again after any other error; Java, in later ones, shows no text of this one."""
    error = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if version == 2 else Errors.UNSUPPORTED_VERSION
    keys = {"coordinator_keys": ("payments", "orders")} if version in MANY else {"key": "payments"}
    answer = ask(FindCoordinatorRequest(key_type=TRANSACTION, **keys), version, {"__consumer_offsets": {12: 2}})
    if version in MANY:
        assert [(at.key, at.error_code, at.error_message, at.node_id) for at in answer.coordinators] == [
            ("payments", error, NO_TRANSACTIONS, -1),
            ("orders", error, NO_TRANSACTIONS, -1),
        ]
    else:
        assert (answer.error_code, answer.error_message, answer.node_id) == (error, NO_TRANSACTIONS, -1)


def test_messages_of_errors_are_kafkas() -> None:
    assert ask(FindCoordinatorRequest(key="my-group"), 3).error_message == "NONE"
    assert ask(FindCoordinatorRequest(key="test"), 3).error_message == "The coordinator is not available."
    [found] = ask(FindCoordinatorRequest(coordinator_keys=("my-group",)), 4).coordinators
    assert found == Coordinator(key="my-group", node_id=2, host="h2", port=9092, error_message="")


def test_a_request_with_very_many_keys_does_not_delay_other_requests() -> None:
    async def scenario() -> list[str]:
        harness = BrokerHarness()
        harness.update_metadata(dict(LEADERS))
        asked = FindCoordinatorRequest(coordinator_keys=tuple(f"group-{number}" for number in range(1_000)))
        order: list[str] = []

        async def answer() -> None:
            await find_coordinator.handle(harness.services, asked, harness.context(4))
            order.append("FindCoordinator")

        async def other() -> None:
            order.append("another request")

        await asyncio.gather(answer(), other())
        return order

    assert asyncio.run(scenario()) == ["another request", "FindCoordinator"]


# ------------------------------------------------------------------ in a simulated cluster


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    settings = {"auto.create.topics.enable": "false", "offsets.topic.num.partitions": "5"}
    with SimulatedCluster(seed=5, brokers=3, settings=settings) as cluster:
        cluster.start()
        yield cluster


def find(cluster: SimulatedCluster, broker: int, *keys: str, key_type: int = GROUP) -> list[tuple[str, int]]:
    asked = FindCoordinatorRequest(coordinator_keys=keys, key_type=key_type)
    answer = cluster.ask(cluster.admin.ask(f"broker-{broker}", 9092, asked, version=6))
    assert isinstance(answer, FindCoordinatorResponse)
    return [(Errors(at.error_code).name, at.node_id) for at in answer.coordinators]


@pytest.mark.spec("CO-3", "TC-10")
def test_a_missing_topic_is_created_once_and_every_broker_names_the_same_coordinator(cluster: SimulatedCluster) -> None:
    other = next(number for number in cluster.broker_ids if number != cluster.controller_id())
    assert find(cluster, other, "my-group", "group1") == [("COORDINATOR_NOT_AVAILABLE", -1)] * 2
    cluster.run_for(2_000)
    leaders = [cluster.leader_id("__consumer_offsets", partition_for(group, 5)) for group in ("my-group", "group1")]
    assert None not in leaders
    for broker in cluster.broker_ids:
        assert find(cluster, broker, "my-group", "group1") == [("NONE", leader) for leader in leaders]


@pytest.mark.spec("CO-3")
def test_the_next_leader_is_the_next_coordinator(cluster: SimulatedCluster) -> None:
    cluster.create_topic("__transaction_state", assignment={index: [3, 1] for index in range(50)})
    assert find(cluster, 1, "payments", key_type=TRANSACTION) == [("NONE", 3)]
    cluster.broker(3).kill()
    cluster.settle()
    assert find(cluster, 1, "payments", key_type=TRANSACTION) == [("NONE", 1)]
    assert find(cluster, 2, "payments", key_type=TRANSACTION) == [("NONE", 1)]


@pytest.mark.spec("CO-2")
def test_broker_counts_the_partitions_only_at_its_start(cluster: SimulatedCluster) -> None:
    """Neither does the group coordinator in Kafka."""
    cluster.create_topic("__consumer_offsets", assignment={0: [1, 2], 1: [1, 2]})
    group = next(f"group-{number}" for number in range(100) if partition_for(f"group-{number}", 5) >= 2)
    assert find(cluster, 3, group) == [("COORDINATOR_NOT_AVAILABLE", -1)]
    cluster.broker(3).begin_stop()
    cluster.settle()
    cluster.broker(3).launch()
    cluster.settle()
    assert find(cluster, 3, group) == [("NONE", 1)]
    assert find(cluster, 2, group) == [("COORDINATOR_NOT_AVAILABLE", -1)]


@pytest.mark.spec("TC-10")
def test_offsets_topic_has_as_many_replicas_as_there_are_brokers() -> None:
    with SimulatedCluster(seed=5, brokers=2) as cluster:
        cluster.start()
        assert find(cluster, 1, "my-group") == [("COORDINATOR_NOT_AVAILABLE", -1)]
        cluster.run_for(1_000)
        [topic] = cluster.ask(cluster.admin.metadata()).topics
        assert {len(partition.replica_nodes) for partition in topic.partitions} == {2}
        assert find(cluster, 1, "my-group")[0][0] == "NONE"


@pytest.mark.parametrize("brokers", [1, 3])
def test_topic_of_transactions_is_not_created(brokers: int) -> None:
    with SimulatedCluster(seed=5, brokers=brokers) as cluster:
        cluster.start()
        assert find(cluster, 1, "my-transaction", key_type=TRANSACTION) == [("UNSUPPORTED_VERSION", -1)]
        cluster.run_for(1_000)
        assert cluster.ask(cluster.admin.metadata()).topics == ()
