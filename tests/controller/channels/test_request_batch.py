"""Tests of `RequestBatch`: the control requests of a batch, their order and contents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.controller.requests import (
    LeaderAndIsrSent,
    ReplicaStopped,
    RequestSent,
    StateSent,
    StopReplicaSent,
    UpdateMetadataSent,
    sent,
)
from tests.controller.values import context, ids, led, registered, replicas, tp
from understudy.controller.channels.request_batch import ControlRequest, LastUpdateMetadata, RequestBatch
from understudy.controller.context import ControllerContext
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicId
from understudy.foundation.wire.codec import encode
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
)
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

ANOTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAw")


def batch_of(cluster: ControllerContext) -> RequestBatch:
    return RequestBatch(cluster, BrokerId(1), "PLAINTEXT")


def by_broker(requests: list[ControlRequest]) -> list[tuple[int, RequestSent]]:
    return [(request.broker_id, sent(request.message)) for request in requests]


def leader_and_isr(requests: list[ControlRequest]) -> dict[int, LeaderAndIsrRequest]:
    return {r.broker_id: r.message for r in requests if isinstance(r.message, LeaderAndIsrRequest)}


def update_metadata(requests: list[ControlRequest]) -> dict[int, UpdateMetadataRequest]:
    return {r.broker_id: r.message for r in requests if isinstance(r.message, UpdateMetadataRequest)}


def stop_replica(requests: list[ControlRequest]) -> dict[int, StopReplicaRequest]:
    return {r.broker_id: r.message for r in requests if isinstance(r.message, StopReplicaRequest)}


@pytest.mark.spec("RB-2", "RB-3")
def test_order_of_requests() -> None:
    cluster = context((1, 2, 3), {"a-0": replicas(2, 1)}, {"a-0": led(2, (2, 1), epoch=5, version=8)})
    batch = batch_of(cluster)
    batch.add_stop_replica(BrokerId(3), (tp("a-0"),), delete=False)
    batch.add_leader_and_isr(ids(2, 1), tp("a-0"))
    assert by_broker(batch.requests()) == [
        (
            1,
            LeaderAndIsrSent(
                [StateSent(partition="a-0", leader=2, isr=(2, 1), epoch=5, version=8, by=4)],
                live_leaders=[2],
                controller_epoch=4,
            ),
        ),
        (
            2,
            LeaderAndIsrSent(
                [StateSent(partition="a-0", leader=2, isr=(2, 1), epoch=5, version=8, by=4)],
                live_leaders=[2],
                controller_epoch=4,
            ),
        ),
        (
            1,
            UpdateMetadataSent(
                [StateSent(partition="a-0", leader=2, isr=(2, 1), epoch=5, version=8, by=4)],
                live_brokers=[1, 2, 3],
                controller_epoch=4,
            ),
        ),
        (
            2,
            UpdateMetadataSent(
                [StateSent(partition="a-0", leader=2, isr=(2, 1), epoch=5, version=8, by=4)],
                live_brokers=[1, 2, 3],
                controller_epoch=4,
            ),
        ),
        (
            3,
            UpdateMetadataSent(
                [StateSent(partition="a-0", leader=2, isr=(2, 1), epoch=5, version=8, by=4)],
                live_brokers=[1, 2, 3],
                controller_epoch=4,
            ),
        ),
        (3, StopReplicaSent([ReplicaStopped(partition="a-0", epoch=5)], controller_epoch=4)),
    ]


@pytest.mark.spec("RB-3")
def test_adding_many_partitions_equals_adding_each() -> None:
    names = ("a-0", "a-1", "b-0")
    cluster = context((1, 2), dict.fromkeys(names, replicas(2, 1)), dict.fromkeys(names, led(2, (2, 1))))
    one_by_one, at_once = batch_of(cluster), batch_of(cluster)
    for batch in (one_by_one, at_once):
        batch.add_leader_and_isr(ids(2), tp("a-1"), is_new=True)
    for name in names:
        one_by_one.add_leader_and_isr(ids(2), tp(name))
    at_once.add_all_leader_and_isr(BrokerId(2), [tp(name) for name in names])
    assert by_broker(at_once.requests()) == by_broker(one_by_one.requests())


@pytest.mark.spec("RB-7")
def test_leader_and_isr_in_full() -> None:
    cluster = context(
        (1, 2),
        {"a-0": replicas(1, 2, 3, adding=(3,), removing=(2,))},
        {"a-0": led(1, (1, 2), epoch=5, version=8, by=3)},
    )
    batch = batch_of(cluster)
    batch.add_leader_and_isr(ids(2), tp("a-0"), is_new=True)
    request = batch.requests()[0]
    assert (request.broker_id, request.broker_epoch, request.version, request.partitions) == (2, 102, 7, 1)
    message = request.message
    assert isinstance(message, LeaderAndIsrRequest)
    assert (message.controller_id, message.controller_epoch, message.broker_epoch) == (1, 4, 102)
    assert (message.is_kraft_controller, message.type) == (False, 0)
    assert message.live_leaders == (LeaderAndIsrLiveLeader(broker_id=1, host_name="broker-1", port=9092),)
    topic = message.topic_states[0]
    assert (topic.topic_name, topic.topic_id) == ("a", cluster.topic_ids["a"])
    assert topic.partition_states == (
        LeaderAndIsrPartitionState(
            partition_index=0,
            controller_epoch=3,
            leader=1,
            leader_epoch=5,
            isr=(1, 2),
            partition_epoch=8,
            replicas=(1, 2, 3),
            adding_replicas=(3,),
            removing_replicas=(2,),
            is_new=True,
        ),
    )


@pytest.mark.spec("RB-8")
def test_update_metadata_in_full() -> None:
    cluster = context((1, 2), {"a-0": replicas(3, 1, 2)}, {"a-0": led(1, (1, 2), epoch=5, version=8, by=3)})
    cluster.shutting_down_broker_ids.add(BrokerId(2))
    batch = batch_of(cluster)
    batch.add_update_metadata(ids(2), [tp("a-0")])
    (request,) = batch.requests()
    assert (request.broker_id, request.broker_epoch, request.version, request.partitions) == (2, 102, 8, 1)
    message = request.message
    assert isinstance(message, UpdateMetadataRequest)
    assert (message.controller_id, message.controller_epoch, message.broker_epoch) == (1, 4, 102)
    # The broker that is leaving is alive and addressable, but its replicas count as offline.
    assert message.live_brokers == tuple(
        UpdateMetadataBroker(
            id=broker,
            endpoints=(
                UpdateMetadataEndpoint(port=9092, host=f"broker-{broker}", listener="PLAINTEXT", security_protocol=0),
            ),
        )
        for broker in (1, 2)
    )
    assert message.topic_states[0].partition_states == (
        UpdateMetadataPartitionState(
            partition_index=0,
            controller_epoch=3,
            leader=1,
            leader_epoch=5,
            isr=(1, 2),
            zk_version=8,
            replicas=(3, 1, 2),
            offline_replicas=(3, 2),
        ),
    )


@pytest.mark.spec("RB-3")
def test_new_partition_stays_new_for_a_broker() -> None:
    cluster = context((1, 2), {"a-0": replicas(1, 2)}, {"a-0": led(1, (1, 2))})
    batch = batch_of(cluster)
    batch.add_leader_and_isr(ids(1), tp("a-0"), is_new=True)
    batch.add_leader_and_isr(ids(1, 2), tp("a-0"))
    requests = leader_and_isr(batch.requests())
    assert {broker: requests[broker].topic_states[0].partition_states[0].is_new for broker in requests} == {
        1: True,
        2: False,
    }


@pytest.mark.spec("RB-4")
def test_stop_replica_keeps_deletion_and_takes_the_epoch_when_added() -> None:
    cluster = context((1,), {"a-0": replicas(1), "b-0": replicas(1)}, {"a-0": led(1, (1,), epoch=5)})
    batch = batch_of(cluster)
    batch.add_stop_replica(BrokerId(1), (tp("a-0"),), delete=True)
    batch.add_stop_replica(BrokerId(1), (tp("a-0"),), delete=False)
    batch.add_stop_replica(BrokerId(1), (tp("b-0"),), delete=False)
    cluster.put_leadership({tp("a-0"): led(1, (1,), epoch=6)})
    (request,) = batch.requests()
    assert request.version == 4
    assert sent(request.message) == StopReplicaSent(
        [ReplicaStopped(partition="a-0", epoch=5, delete=True), ReplicaStopped(partition="b-0", epoch=-1)],
        controller_epoch=4,
    )


@pytest.mark.spec("RB-5")
def test_update_metadata_has_every_partition_for_every_broker() -> None:
    cluster = context((1, 2, 3), {"a-0": replicas(1), "b-0": replicas(2)}, {"a-0": led(1, (1,)), "b-0": led(2, (2,))})
    batch = batch_of(cluster)
    batch.add_update_metadata(ids(1), [tp("a-0")])
    batch.add_update_metadata(ids(2), [tp("b-0")])
    requests = update_metadata(batch.requests())
    assert list(requests) == [1, 2]
    assert requests[1].topic_states is requests[2].topic_states
    assert [topic.topic_name for topic in requests[1].topic_states] == ["a", "b"]


@pytest.mark.spec("RB-5")
def test_update_metadata_without_leadership_has_only_live_brokers() -> None:
    cluster = context((1, 2), {"a-0": replicas(1)})
    batch = batch_of(cluster)
    batch.add_update_metadata(ids(1, 2), [tp("a-0")])
    assert by_broker(batch.requests()) == [
        (1, UpdateMetadataSent([], live_brokers=[1, 2], controller_epoch=4)),
        (2, UpdateMetadataSent([], live_brokers=[1, 2], controller_epoch=4)),
    ]


@pytest.mark.spec("RB-5")
def test_update_metadata_of_a_topic_queued_for_deletion() -> None:
    cluster = context((1,), {"a-0": replicas(1)}, {"a-0": led(1, (1,), epoch=5, version=8)})
    cluster.topics_to_be_deleted.add("a")
    batch = batch_of(cluster)
    batch.add_update_metadata(ids(1), [tp("a-0")])
    assert by_broker(batch.requests()) == [
        (
            1,
            UpdateMetadataSent(
                [StateSent(partition="a-0", leader=-2, isr=(1,), by=4)], live_brokers=[1], controller_epoch=4
            ),
        )
    ]


@pytest.mark.spec("RB-6")
def test_unregistered_broker_gets_no_requests() -> None:
    cluster = context((1,), {"a-0": replicas(1, 2)}, {"a-0": led(1, (1, 2))})
    batch = batch_of(cluster)
    batch.add_leader_and_isr(ids(1, 2, -1), tp("a-0"))
    batch.add_stop_replica(BrokerId(2), (tp("a-0"),), delete=False)
    batch.add_update_metadata(ids(2))
    assert [(request.broker_id, type(request.message).__name__) for request in batch.requests()] == [
        (1, "LeaderAndIsrRequest"),
        (1, "UpdateMetadataRequest"),
    ]


@pytest.mark.spec("BUG-9")
def test_leader_without_the_listener_is_left_out() -> None:
    cluster = context((1,), {"a-0": replicas(2, 1), "b-0": replicas(1)}, {"a-0": led(2, (2, 1)), "b-0": led(1, (1,))})
    cluster.add_live_brokers({BrokerId(2): registered(2, listeners=("CLIENTS",))})
    batch = batch_of(cluster)
    batch.add_leader_and_isr(ids(1), tp("a-0"))
    batch.add_leader_and_isr(ids(1), tp("b-0"))
    request = sent(batch.requests()[0].message)
    assert isinstance(request, LeaderAndIsrSent)
    assert request.live_leaders == [1]


def test_topic_without_id_has_the_zero_id() -> None:
    cluster = context((1,), {"a-0": replicas(1)}, {"a-0": led(1, (1,))})
    cluster.topic_ids.clear()
    batch = batch_of(cluster)
    batch.add_leader_and_isr(ids(1), tp("a-0"))
    assert leader_and_isr(batch.requests())[1].topic_states[0].topic_id == NO_TOPIC_ID


def test_equal_lists_share_one_object_and_states_are_built_once() -> None:
    cluster = context(
        (1, 2, 3),
        {"a-0": replicas(1, 2, 3), "a-1": replicas(1, 2, 3)},
        {"a-0": led(1, (1, 2, 3)), "a-1": led(2, (1, 2, 3))},
    )
    batch = batch_of(cluster)
    batch.add_leader_and_isr(ids(1, 2, 3), tp("a-0"))
    batch.add_leader_and_isr(ids(1, 2), tp("a-1"))
    requests = leader_and_isr(batch.requests())
    assert requests[1].topic_states is requests[2].topic_states
    assert requests[1].live_leaders is requests[2].live_leaders
    assert requests[3].topic_states[0].partition_states[0] is requests[1].topic_states[0].partition_states[0]
    assert [leader.broker_id for leader in requests[3].live_leaders] == [1]


def test_empty_batch_has_no_requests() -> None:
    assert batch_of(context()).requests() == []


def test_partitions_are_grouped_by_topic_in_order() -> None:
    names = ["b-1", "a-0", "b-0"]
    cluster = context((1,), {name: replicas(1) for name in names}, {name: led(1, (1,)) for name in names})
    batch = batch_of(cluster)
    for name in names:
        batch.add_leader_and_isr(ids(1), tp(name))
        batch.add_stop_replica(BrokerId(1), (tp(name),), delete=False)
    requests = batch.requests()
    expected = [("b", [1, 0]), ("a", [0])]
    for message in (leader_and_isr(requests)[1], update_metadata(requests)[1], stop_replica(requests)[1]):
        assert [
            (topic.topic_name, [state.partition_index for state in topic.partition_states])
            for topic in message.topic_states
        ] == expected


def _two_brokers_lead() -> ControllerContext:
    return context(
        (1, 2, 3),
        {"a-0": replicas(1, 2), "b-0": replicas(2, 1)},
        {"a-0": led(1, (1, 2)), "b-0": led(2, (2, 1))},
    )


def _send_all(cluster: ControllerContext, last: LastUpdateMetadata, *, to: int = 3) -> ControlRequest:
    batch = RequestBatch(cluster, BrokerId(1), "PLAINTEXT", last_update_metadata=last)
    batch.add_update_metadata(ids(to), [tp("a-0"), tp("b-0")])
    (request,) = batch.requests()
    return request


@pytest.mark.spec("RB-5", "BR-12")
def test_equal_update_metadata_of_one_event_is_built_and_encoded_once() -> None:
    cluster, last = _two_brokers_lead(), LastUpdateMetadata()
    first, second = _send_all(cluster, last), _send_all(cluster, last, to=2)
    assert first.body is not None
    assert first.body is second.body
    assert (first.message.broker_epoch, second.message.broker_epoch) == (103, 102)
    last.forget()
    assert _send_all(cluster, last).body is not first.body


def _lead_at_epoch_9(cluster: ControllerContext) -> None:
    cluster.put_leadership({tp("a-0"): led(1, (1,), epoch=9)})


def _add_replica_3(cluster: ControllerContext) -> None:
    cluster.update_partition_assignment(tp("a-0"), replicas(1, 2, 3))


def _register_broker_4(cluster: ControllerContext) -> None:
    cluster.add_live_brokers({BrokerId(4): registered(4)})


def _remove_broker_2(cluster: ControllerContext) -> None:
    cluster.remove_live_brokers(ids(2))


def _shut_broker_2_down(cluster: ControllerContext) -> None:
    cluster.shutting_down_broker_ids.add(BrokerId(2))


def _fail_directory_of_broker_2(cluster: ControllerContext) -> None:
    cluster.replicas_on_offline_dirs[BrokerId(2)] = {tp("a-0")}


def _queue_deletion(cluster: ControllerContext) -> None:
    cluster.topics_to_be_deleted.add("a")


def _delete_topic(cluster: ControllerContext) -> None:
    cluster.remove_topic("a")


def _give_topic_an_id(cluster: ControllerContext) -> None:
    del cluster.topic_names[cluster.topic_ids.pop("a")]
    cluster.add_topic_id("a", ANOTHER_ID)


@pytest.mark.spec("RB-5")
@pytest.mark.parametrize(
    "change",
    [
        _lead_at_epoch_9,
        _add_replica_3,
        _register_broker_4,
        _remove_broker_2,
        _shut_broker_2_down,
        _fail_directory_of_broker_2,
        _queue_deletion,
        _delete_topic,
        _give_topic_an_id,
    ],
)
def test_update_metadata_is_built_anew_after_a_change(change: Callable[[ControllerContext], None]) -> None:
    cluster, last = _two_brokers_lead(), LastUpdateMetadata()
    before = _send_all(cluster, last)
    change(cluster)
    after, alone = _send_all(cluster, last), _send_all(cluster, LastUpdateMetadata())
    assert after.message == alone.message != before.message
    assert after.body is not None
    assert after.body.at(103) == encode(alone.message, alone.version)
