"""Tests of the metadata cache: how UpdateMetadata requests change it, and waiting for a change."""

from __future__ import annotations

import asyncio

import pytest

from understudy.brokers.metadata.metadata_cache import MetadataCache, MetadataSnapshot, updated
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

ORDERS = TopicId("AAAAAAAAAAAAAAAAAAAAAQ")


def broker(number: int, listener: str = "PLAINTEXT") -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=number, endpoints=(UpdateMetadataEndpoint(host=f"h{number}", port=9, listener=listener),)
    )


def request(
    states: dict[str, dict[int, int]],
    *,
    live: tuple[int, ...] = (1, 2),
    controller: int = 1,
    topic_id: TopicId = ORDERS,
) -> UpdateMetadataRequest:
    """An UpdateMetadata request with `states`: topic → partition → leader."""
    return UpdateMetadataRequest(
        controller_id=controller,
        live_brokers=tuple(broker(number) for number in live),
        topic_states=tuple(
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=topic_id,
                partition_states=tuple(
                    UpdateMetadataPartitionState(partition_index=index, leader=leader)
                    for index, leader in leaders.items()
                ),
            )
            for topic, leaders in states.items()
        ),
    )


@pytest.mark.spec("MC-1")
def test_brokers_and_controller_are_replaced_and_partitions_merged() -> None:
    first = updated(MetadataSnapshot(), request({"orders": {0: 1, 1: 2}})).snapshot
    second = updated(first, request({"orders": {1: 1}}, live=(1, 3), controller=3)).snapshot
    assert sorted(second.live_brokers) == [1, 3]
    assert second.controller_id == 3
    assert {index: state.leader for index, state in second.topics["orders"].items()} == {0: 1, 1: 1}
    assert {index: state.leader for index, state in first.topics["orders"].items()} == {0: 1, 1: 2}, (
        "a snapshot never changes"
    )


@pytest.mark.spec("MC-1")
def test_leader_minus_two_removes_the_partition_and_with_the_last_one_the_topic() -> None:
    snapshot = updated(MetadataSnapshot(), request({"orders": {0: 1, 1: 2}})).snapshot
    one_left = updated(snapshot, request({"orders": {0: -2}}))
    assert one_left.deleted == (TopicPartition("orders", 0),)
    assert one_left.snapshot.topic_names == {ORDERS: "orders"}
    gone = updated(one_left.snapshot, request({"orders": {1: -2, 7: -2}}))
    assert gone.deleted == (TopicPartition("orders", 1),), "an unknown partition is not listed as deleted"
    assert (gone.snapshot.topics, gone.snapshot.topic_ids, gone.snapshot.topic_names) == ({}, {}, {})


@pytest.mark.spec("MC-1")
def test_zero_topic_id_removes_the_id_and_an_unlisted_topic_keeps_its_id() -> None:
    snapshot = updated(MetadataSnapshot(), request({"orders": {0: 1}})).snapshot
    assert updated(snapshot, request({})).snapshot.topic_id("orders") == ORDERS
    assert (
        updated(snapshot, request({"orders": {0: 1}}, topic_id=NO_TOPIC_ID)).snapshot.topic_id("orders") == NO_TOPIC_ID
    )


@pytest.mark.spec("MC-1")
def test_a_negative_controller_id_means_no_controller() -> None:
    assert updated(MetadataSnapshot(), request({}, controller=-1)).snapshot.controller_id is None


@pytest.mark.spec("MC-1")
def test_old_versions_name_the_topic_in_each_partition() -> None:
    flat = UpdateMetadataRequest(
        ungrouped_partition_states=(
            UpdateMetadataPartitionState(topic_name="a", partition_index=0, leader=1),
            UpdateMetadataPartitionState(topic_name="b", partition_index=0, leader=2),
            UpdateMetadataPartitionState(topic_name="a", partition_index=1, leader=3),
        )
    )
    topics = updated(MetadataSnapshot(), flat).snapshot.topics
    assert {topic: sorted(states) for topic, states in topics.items()} == {"a": [0, 1], "b": [0]}


@pytest.mark.spec("MC-1")
def test_old_versions_without_topic_ids_keep_known_topic_ids() -> None:
    named = updated(MetadataSnapshot(), request({"orders": {0: 1}}, topic_id=ORDERS)).snapshot
    flat = UpdateMetadataRequest(
        ungrouped_partition_states=(UpdateMetadataPartitionState(topic_name="orders", partition_index=0, leader=2),)
    )
    assert updated(named, flat).snapshot.topic_id("orders") == ORDERS


def test_endpoint_is_that_of_a_live_broker_on_the_requested_listener() -> None:
    snapshot = updated(MetadataSnapshot(), request({})).snapshot
    endpoint = snapshot.endpoint(2, "PLAINTEXT")
    assert endpoint is not None
    assert endpoint.host == "h2"
    assert snapshot.endpoint(2, "OTHER") is None
    assert snapshot.endpoint(9, "PLAINTEXT") is None


@pytest.mark.spec("MC-4")
@pytest.mark.parametrize(
    ("listeners", "differing"),
    [
        ({1: ("A", "B"), 2: ("B", "A")}, {}),
        ({1: ("A",), 2: ("A", "B")}, {1: ("A",), 2: ("A", "B")}),
        ({3: ("A",), 1: ("A",), 2: ("B",)}, {1: ("A",), 2: ("B",), 3: ("A",)}),
        # broker 1 itself is not alive: there is nothing to compare with
        ({2: ("A",), 3: ("B",)}, {}),
        ({}, {}),
    ],
)
def test_differing_listeners(listeners: dict[int, tuple[str, ...]], differing: dict[int, tuple[str, ...]]) -> None:
    alive = (
        UpdateMetadataBroker(
            id=number, endpoints=tuple(UpdateMetadataEndpoint(host="h", listener=name) for name in names)
        )
        for number, names in listeners.items()
    )
    snapshot = updated(MetadataSnapshot(), UpdateMetadataRequest(live_brokers=tuple(alive))).snapshot
    assert snapshot.differing_listeners(1) == differing


@pytest.mark.spec("MC-2", "TC-7")
def test_wait_ends_at_the_update_that_fulfils_it_or_at_the_timeout() -> None:
    async def scenario() -> tuple[bool, bool, bool]:
        cache = MetadataCache()
        waiting = asyncio.create_task(cache.wait_until(lambda snapshot: "orders" in snapshot.topics, timeout_ms=5_000))
        await asyncio.sleep(0)
        cache.update(request({"other": {0: 1}}))
        await asyncio.sleep(0)
        assert not waiting.done()
        cache.update(request({"orders": {0: 1}}))
        came = await waiting
        at_once = await cache.wait_until(lambda snapshot: "orders" in snapshot.topics, timeout_ms=0)
        never = await cache.wait_until(lambda snapshot: "nothing" in snapshot.topics, timeout_ms=1)
        return came, at_once, never

    assert asyncio.run(scenario()) == (True, True, False)


@pytest.mark.spec("MC-1")
def test_listener_names_missing_in_old_versions_are_those_of_the_security_protocol() -> None:
    nameless = (UpdateMetadataEndpoint(host="h", port=1), UpdateMetadataEndpoint(host="h", port=2, security_protocol=1))
    request_v0 = UpdateMetadataRequest(
        live_brokers=(
            UpdateMetadataBroker(id=1, v0_host="h", v0_port=7),
            UpdateMetadataBroker(id=2, endpoints=nameless),
        )
    )
    snapshot = updated(MetadataSnapshot(), request_v0).snapshot
    found = {
        (number, name): snapshot.endpoint(number, name)
        for number, name in ((1, "PLAINTEXT"), (2, "PLAINTEXT"), (2, "SSL"))
    }
    assert [endpoint and (endpoint.host, endpoint.port) for endpoint in found.values()] == [
        ("h", 7),
        ("h", 1),
        ("h", 2),
    ]
