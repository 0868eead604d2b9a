"""Tests of request bodies that brokers share: the bytes are the same as for each request encoded by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.values import context, ids, led, replicas, tp
from understudy.controller.channels.request_batch import RequestBatch
from understudy.controller.channels.shared_body import Shareable, SharedBody
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.codec import encode
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest


@given(
    epoch=st.integers(-1, 2**63 - 1),
    controller=st.integers(0, 2**31 - 1),
    request=st.sampled_from(
        [(LeaderAndIsrRequest, version) for version in range(8)]
        + [(UpdateMetadataRequest, version) for version in range(9)]
    ),
)
def test_shared_body_equals_the_encoded_request(
    epoch: int, controller: int, request: tuple[type[Shareable], int]
) -> None:
    kind, version = request
    body = SharedBody(kind(controller_id=controller, controller_epoch=7, broker_epoch=5), version)
    for broker_epoch in (epoch, 5):
        own = kind(controller_id=controller, controller_epoch=7, broker_epoch=broker_epoch)
        assert body.at(broker_epoch) == encode(own, version)


@pytest.mark.spec("RB-5", "RB-7", "RB-8")
def test_equal_requests_share_a_body_with_each_brokers_epoch() -> None:
    cluster = context(
        (1, 2, 3),
        {"a-0": replicas(1, 2, 3), "a-1": replicas(3, 2)},
        {"a-0": led(1, (1, 2, 3)), "a-1": led(3, (3,), epoch=2)},
    )
    batch = RequestBatch(cluster, BrokerId(1), "PLAINTEXT")
    batch.add_leader_and_isr(ids(1, 2, 3), tp("a-0"))
    batch.add_leader_and_isr(ids(2, 3), tp("a-1"))
    batch.add_stop_replica(BrokerId(2), (tp("a-1"),), delete=False)
    requests = batch.requests()
    for request in requests:
        if request.body is not None:
            assert request.body.at(request.broker_epoch) == encode(request.message, request.version)
            assert request.message.broker_epoch == request.broker_epoch == 100 + request.broker_id
    first, second, third = (request.body for request in requests if isinstance(request.message, LeaderAndIsrRequest))
    assert first is not second
    assert second is third
    metadata = [request.body for request in requests if isinstance(request.message, UpdateMetadataRequest)]
    assert all(body is metadata[0] for body in metadata)
    assert [request.body for request in requests if isinstance(request.message, StopReplicaRequest)] == [None]
