"""Tests of control requests at older protocol versions."""

from __future__ import annotations

import pytest

from tests.controller.values import context, ids, led, registered, replicas, state, tp
from understudy.controller.channels.coalescing import coalesce
from understudy.controller.channels.request_batch import ControlRequest, RequestBatch
from understudy.controller.channels.request_shapes import in_version, split_by_deletion
from understudy.controller.context import ControllerContext
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)


def cluster() -> ControllerContext:
    made = context(
        (1, 2, 3),
        {"a-0": replicas(1, 2), "a-1": replicas(2, 1), "b-0": replicas(1, 2, 3)},
        {"a-0": led(1, (1, 2), epoch=5), "a-1": led(2, (2, 1), epoch=6), "b-0": led(3, (3,), epoch=7)},
    )
    made.add_live_brokers({BrokerId(3): registered(3, listeners=("PLAINTEXT", "INTERNAL"))})
    return made


def batch(version: str) -> RequestBatch:
    return RequestBatch(cluster(), BrokerId(1), "PLAINTEXT", MetadataVersion.parse(version))


def versions(requests: list[ControlRequest]) -> set[tuple[str, int]]:
    return {(type(request.message).__name__.removesuffix("Request"), request.version) for request in requests}


@pytest.mark.parametrize(
    ("version", "leader_and_isr", "stop_replica", "update_metadata"),
    [
        ("3.9", 7, 4, 8),
        ("3.3", 6, 3, 7),
        ("2.6", 4, 3, 6),
        ("2.5", 4, 2, 6),
        ("2.2", 2, 1, 5),
        ("0.10.2", 0, 0, 3),
        ("0.8.2", 0, 0, 0),
    ],
)
@pytest.mark.spec("IO-3")
def test_request_versions_follow_the_protocol_version(
    version: str, leader_and_isr: int, stop_replica: int, update_metadata: int
) -> None:
    made = batch(version)
    made.add_leader_and_isr(ids(1, 2), tp("a-0"))
    made.add_stop_replica(BrokerId(2), (tp("a-1"),), delete=True)
    assert versions(made.requests()) == {
        ("LeaderAndIsr", leader_and_isr),
        ("StopReplica", stop_replica),
        ("UpdateMetadata", update_metadata),
    }


def stopped(request: ControlRequest) -> list[tuple[str, int, bool]]:
    assert isinstance(request.message, StopReplicaRequest)
    return [
        (topic.topic_name, state.partition_index, state.delete_partition)
        for topic in request.message.topic_states
        for state in topic.partition_states
    ]


@pytest.mark.spec("RB-9")
def test_stop_replica_has_deletions_by_partition_from_version_3() -> None:
    made = batch("2.6")
    for name, delete in (("a-0", True), ("b-0", False), ("a-1", False)):
        made.add_stop_replica(BrokerId(2), (tp(name),), delete=delete)
    (request,) = made.requests()
    assert stopped(request) == [("a", 0, True), ("a", 1, False), ("b", 0, False)]
    assert request.partitions == 3


@pytest.mark.spec("RB-9")
def test_stop_replica_below_version_3_is_split_by_deletion() -> None:
    made = batch("2.5")
    for name, delete in (("a-0", True), ("b-0", False), ("a-1", False)):
        made.add_stop_replica(BrokerId(2), (tp(name),), delete=delete)
    made.add_stop_replica(BrokerId(3), (tp("b-0"),), delete=False)
    requests = made.requests()
    assert [(request.broker_id, stopped(request), request.partitions) for request in requests] == [
        (2, [("a", 0, True)], 1),
        (2, [("a", 1, False), ("b", 0, False)], 2),
        (3, [("b", 0, False)], 1),
    ]
    on_the_wire = [in_version(request.message, request.version) for request in requests]
    assert [message.delete_partitions for message in on_the_wire if isinstance(message, StopReplicaRequest)] == [
        True,
        False,
        False,
    ]


@pytest.mark.spec("RB-9")
def test_coalesced_stop_replica_is_split_by_deletion() -> None:
    made = [batch("2.5"), batch("2.5")]
    made[0].add_stop_replica(BrokerId(2), (tp("a-0"),), delete=True)
    made[1].add_stop_replica(BrokerId(2), (tp("a-1"),), delete=False)
    requests = coalesce([request for one in made for request in one.requests()])
    assert [stopped(request) for request in requests] == [[("a", 0, True)], [("a", 1, False)]]
    assert [(request.version, request.partitions) for request in requests] == [(2, 1), (2, 1)]


STOP = StopReplicaRequest(
    topic_states=(
        StopReplicaTopicState(
            topic_name="a",
            partition_states=tuple(
                StopReplicaPartitionState(partition_index=p, leader_epoch=9, delete_partition=True) for p in (0, 4)
            ),
        ),
    )
)


@pytest.mark.spec("RB-9")
def test_stop_replica_in_older_versions() -> None:
    assert in_version(STOP, 3) is STOP
    by_topic = StopReplicaRequest(
        delete_partitions=True, topics=(StopReplicaTopicV1(name="a", partition_indexes=(0, 4)),)
    )
    assert in_version(STOP, 2) == in_version(STOP, 1) == by_topic
    ungrouped = tuple(StopReplicaPartitionV0(topic_name="a", partition_index=p) for p in (0, 4))
    assert in_version(STOP, 0) == StopReplicaRequest(delete_partitions=True, ungrouped_partitions=ungrouped)
    assert split_by_deletion(STOP, 0) == (STOP,)


def test_ungrouped_partitions_have_topic_names() -> None:
    made = batch("0.10.2")
    made.add_leader_and_isr(ids(1), tp("a-1"))
    made.add_leader_and_isr(ids(1), tp("b-0"))
    for request in made.requests():
        assert request.body is not None
        read = decode(type(request.message), request.version, request.body.at(request.broker_epoch))
        assert isinstance(read, LeaderAndIsrRequest | UpdateMetadataRequest)
        assert read.topic_states == ()
        named = [TopicPartition(state.topic_name, state.partition_index) for state in read.ungrouped_partition_states]
        assert named == [tp("a-1"), tp("b-0")]


def update_metadata(version: str) -> UpdateMetadataRequest:
    made = batch(version)
    made.add_update_metadata(ids(1), [tp("a-0")])
    (request,) = made.requests()
    assert request.body is not None
    read = decode(UpdateMetadataRequest, request.version, request.body.at(request.broker_epoch))
    assert read == decode(
        UpdateMetadataRequest, request.version, encode(in_version(request.message, request.version), request.version)
    )
    return read


@pytest.mark.spec("RB-8")
def test_update_metadata_below_version_3_has_no_listener_names() -> None:
    endpoint = UpdateMetadataEndpoint(port=9092, host="broker-3", listener="", security_protocol=0)
    assert update_metadata("0.10.1").live_brokers[2] == UpdateMetadataBroker(id=3, endpoints=(endpoint, endpoint))


@pytest.mark.spec("RB-8")
def test_update_metadata_version_0_has_one_address_per_broker() -> None:
    assert update_metadata("0.8.2").live_brokers == tuple(
        UpdateMetadataBroker(id=broker, v0_host=f"broker-{broker}", v0_port=9092) for broker in (1, 2, 3)
    )


@pytest.mark.spec("RB-8")
def test_update_metadata_version_0_leaves_out_brokers_without_plaintext() -> None:
    lonely = context((1,), {"a-0": replicas(1)}, {"a-0": led(1, (1,))})
    lonely.add_live_brokers({BrokerId(2): registered(2, listeners=("INTERNAL",))})
    made = RequestBatch(lonely, BrokerId(1), "PLAINTEXT", MetadataVersion.IBP_0_8_2)
    made.add_update_metadata(ids(1, 2))
    messages = [in_version(request.message, request.version) for request in made.requests()]
    assert [
        [broker.id for broker in message.live_brokers]
        for message in messages
        if isinstance(message, UpdateMetadataRequest)
    ] == [[1], [1]]


@pytest.mark.spec("RB-7")
@pytest.mark.parametrize(("version", "expected"), [("3.2", 1), ("3.1", 0)])
def test_leader_recovery_state_is_sent_from_3_2(version: str, expected: int) -> None:
    recovering = cluster()
    unclean = state(1, (1,), epoch=5, recovering=True)
    recovering.put_leadership({tp("a-0"): LeaderIsrAndControllerEpoch(unclean, 4)})
    made = RequestBatch(recovering, BrokerId(1), "PLAINTEXT", MetadataVersion.parse(version))
    made.add_leader_and_isr(ids(1), tp("a-0"))
    message = made.requests()[0].message
    assert isinstance(message, LeaderAndIsrRequest)
    assert message.topic_states[0].partition_states[0].leader_recovery_state == expected
