"""Tests of `coalesce`: requests that wait for one broker become fewer, and leave it in the same state."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.requests import (
    LeaderAndIsrSent,
    ReplicaStopped,
    RequestSent,
    StateSent,
    StopReplicaSent,
    UpdateMetadataSent,
    sent,
)
from understudy.controller.channels.coalescing import coalesce
from understudy.controller.channels.request_batch import ControlRequest
from understudy.controller.channels.request_shapes import ControlMessage
from understudy.foundation.cluster.identifiers import BrokerId, TopicId
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

A, B = TopicId("a" * 22), TopicId("b" * 22)


def request(message: ControlMessage, version: int) -> ControlRequest:
    return ControlRequest(broker_id=BrokerId(1), broker_epoch=7, message=message, version=version, partitions=0)


def start(
    *partitions: tuple[int, int], new: bool = False, leaders: tuple[int, ...] = (), topic_id: TopicId = A
) -> ControlRequest:
    """LeaderAndIsr for (partition, leader epoch) of topic t."""
    states = tuple(LeaderAndIsrPartitionState(partition_index=p, leader_epoch=e, is_new=new) for p, e in partitions)
    live = tuple(LeaderAndIsrLiveLeader(broker_id=leader, host_name=f"h{leader}") for leader in leaders)
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=states)
    return request(LeaderAndIsrRequest(controller_epoch=4, broker_epoch=7, topic_states=(topic,), live_leaders=live), 7)


def stop(*partitions: tuple[int, int], delete: bool = False) -> ControlRequest:
    states = tuple(
        StopReplicaPartitionState(partition_index=p, leader_epoch=e, delete_partition=delete) for p, e in partitions
    )
    topic = StopReplicaTopicState(topic_name="t", partition_states=states)
    return request(StopReplicaRequest(controller_epoch=4, broker_epoch=7, topic_states=(topic,)), 4)


def update_metadata(*partitions: tuple[int, int], live: tuple[int, ...] = (1,)) -> ControlRequest:
    states = tuple(UpdateMetadataPartitionState(partition_index=p, leader_epoch=e) for p, e in partitions)
    topics = (UpdateMetadataTopicState(topic_name="t", topic_id=A, partition_states=states),) if states else ()
    brokers = tuple(UpdateMetadataBroker(id=broker) for broker in live)
    return request(
        UpdateMetadataRequest(controller_epoch=4, broker_epoch=7, topic_states=topics, live_brokers=brokers), 8
    )


def all_sent(requests: list[ControlRequest]) -> list[RequestSent]:
    return [sent(request.message) for request in requests]


def test_one_request_is_not_coalesced() -> None:
    only = start((0, 1))
    assert coalesce([only]) == [only]
    assert coalesce([]) == []


@pytest.mark.spec("D14")
def test_coalescing_keeps_the_newest_state() -> None:
    coalesced = coalesce(
        [
            start((0, 1), (1, 1), leaders=(1,)),
            update_metadata((0, 1), (1, 1)),
            start((1, 2), leaders=(2,)),
            update_metadata((1, 2), live=(1, 2)),
        ]
    )
    assert all_sent(coalesced) == [
        UpdateMetadataSent([], live_brokers=[1, 2], controller_epoch=4),
        LeaderAndIsrSent(
            [
                StateSent(partition="t-0", leader=0, isr=(), epoch=1, by=0),
                StateSent(partition="t-1", leader=0, isr=(), epoch=2, by=0),
            ],
            live_leaders=[1, 2],
            controller_epoch=4,
        ),
        UpdateMetadataSent(
            [
                StateSent(partition="t-0", leader=0, isr=(), epoch=1, by=0),
                StateSent(partition="t-1", leader=0, isr=(), epoch=2, by=0),
            ],
            live_brokers=[1, 2],
            controller_epoch=4,
        ),
    ]
    assert [(r.broker_id, r.broker_epoch, r.version, r.partitions) for r in coalesced] == [
        (1, 7, 8, 0),
        (1, 7, 7, 2),
        (1, 7, 8, 2),
    ]


@pytest.mark.spec("D14", "C10")
def test_coalescing_sends_live_brokers_first() -> None:
    coalesced = coalesce([start((0, 1), leaders=(5,)), update_metadata((0, 1), live=(1, 5))])
    assert all_sent(coalesced)[0] == UpdateMetadataSent([], live_brokers=[1, 5], controller_epoch=4)


def test_coalescing_keeps_is_new() -> None:
    assert all_sent(coalesce([start((0, 0), new=True), start((0, 1))])) == [
        LeaderAndIsrSent(
            [StateSent(partition="t-0", leader=0, isr=(), epoch=1, by=0, is_new=True)],
            live_leaders=[],
            controller_epoch=4,
        )
    ]


def test_coalescing_keeps_deletion() -> None:
    assert all_sent(coalesce([stop((0, 3), delete=True), stop((0, 4))])) == [
        StopReplicaSent([ReplicaStopped(partition="t-0", epoch=4, delete=True)], controller_epoch=4)
    ]


def test_coalescing_keeps_the_order_of_stop_and_start() -> None:
    coalesced = coalesce([start((0, 1), (1, 1)), stop((0, 1)), start((0, 2), (1, 2)), stop((2, 1))])
    assert all_sent(coalesced) == [
        LeaderAndIsrSent(
            [
                StateSent(partition="t-0", leader=0, isr=(), epoch=1, by=0),
                StateSent(partition="t-1", leader=0, isr=(), epoch=2, by=0),
            ],
            live_leaders=[],
            controller_epoch=4,
        ),
        StopReplicaSent(
            [ReplicaStopped(partition="t-0", epoch=1), ReplicaStopped(partition="t-2", epoch=1)], controller_epoch=4
        ),
        LeaderAndIsrSent(
            [StateSent(partition="t-0", leader=0, isr=(), epoch=2, by=0)], live_leaders=[], controller_epoch=4
        ),
    ]


def test_coalescing_separates_topics_by_id() -> None:
    coalesced = coalesce([start((0, 5), topic_id=A), stop((0, 5), delete=True), start((0, 0), topic_id=B, new=True)])
    assert all_sent(coalesced) == [
        LeaderAndIsrSent(
            [StateSent(partition="t-0", leader=0, isr=(), epoch=5, by=0)], live_leaders=[], controller_epoch=4
        ),
        StopReplicaSent([ReplicaStopped(partition="t-0", epoch=5, delete=True)], controller_epoch=4),
        LeaderAndIsrSent(
            [StateSent(partition="t-0", leader=0, isr=(), by=0, is_new=True)], live_leaders=[], controller_epoch=4
        ),
    ]


def test_coalescing_update_metadata_alone() -> None:
    assert all_sent(coalesce([update_metadata(live=(1, 2)), update_metadata(live=(1,))])) == [
        UpdateMetadataSent([], live_brokers=[1], controller_epoch=4)
    ]


class BrokerModel:
    """The state of a broker after a stream of requests: the last start and stop of each partition, and its metadata."""

    def __init__(self, requests: list[ControlRequest]) -> None:
        self.last: dict[int, list[tuple[str, int]]] = {}
        self.metadata: dict[int, int] = {}
        for message in (request.message for request in requests):
            for topic in message.topic_states:
                for state in topic.partition_states:
                    if isinstance(state, UpdateMetadataPartitionState):
                        self.metadata[state.partition_index] = state.leader_epoch
                        continue
                    kind = "start" if isinstance(state, LeaderAndIsrPartitionState) else "stop"
                    received = self.last.setdefault(state.partition_index, [])
                    if received and received[-1][0] == kind:
                        received.pop()
                    received.append((kind, state.leader_epoch))


steps = st.tuples(st.sampled_from([start, stop, update_metadata]), st.integers(0, 3), st.integers(0, 9))


@given(st.lists(steps, max_size=30))
def test_coalesced_requests_leave_the_broker_in_the_same_state(stream: list[tuple[object, int, int]]) -> None:
    requests = [make((partition, epoch)) for make, partition, epoch in stream]  # type: ignore[operator]  # sampled from three functions
    coalesced = coalesce(requests)
    expected, found = BrokerModel(requests), BrokerModel(coalesced)
    assert found.last == expected.last
    assert found.metadata == expected.metadata
    assert len(coalesced) <= len(requests) + 1, "no more than it was, and the live brokers in front"
