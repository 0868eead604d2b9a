"""`AdminClient` against a server whose responses are scripted."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.peers import ScriptedPeer
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from understudy.foundation.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from understudy.foundation.wire.schema import Message

UNKNOWN_CODE = 999
"""A code that a broker of a newer release may send."""


def refuse(_: RequestHeader, request: Message) -> Message:
    """Answer as the only broker of a cluster whose controller refuses everything with `UNKNOWN_CODE`."""
    match request:
        case MetadataRequest():
            broker = MetadataResponseBroker(node_id=1, host="h1", port=9092)
            return MetadataResponse(brokers=(broker,), controller_id=1)
        case CreateTopicsRequest():
            return CreateTopicsResponse(topics=(CreatableTopicResult(name="orders", error_code=UNKNOWN_CODE),))
        case AlterPartitionReassignmentsRequest():
            refused = ReassignablePartitionResponse(
                partition_index=0, error_code=UNKNOWN_CODE, error_message="not on a Sunday"
            )
            topic = ReassignableTopicResponse(name="orders", partitions=(refused,))
            return AlterPartitionReassignmentsResponse(responses=(topic,))
    raise AssertionError(f"not expected: {request}")


def client() -> AdminClient:
    return AdminClient(ScriptedPeer(refuse), ["h1:9092"])


def test_a_request_refused_with_an_unknown_code_raises_an_error_that_names_the_code() -> None:
    with pytest.raises(ApiError, match="UNKNOWN_ERROR_CODE_999") as raised:
        asyncio.run(client().create_topic("orders"))
    assert raised.value.error is Errors.UNKNOWN_SERVER_ERROR


def test_a_partition_refused_with_an_unknown_code_has_the_message_of_the_controller() -> None:
    refused = asyncio.run(client().alter_partition_reassignments({TopicPartition("orders", 0): [1]}))
    error = refused[TopicPartition("orders", 0)]
    assert error is not None
    assert (error.error, str(error)) == (Errors.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR: not on a Sunday")


def test_the_next_request_begins_with_the_broker_that_answered() -> None:
    peer = ScriptedPeer(refuse)
    peer.refusing.add("h1:9092")
    two = AdminClient(peer, ["h1:9092", "h2:9092"])
    asyncio.run(two.metadata())
    peer.refusing.clear()
    asyncio.run(two.metadata())
    assert [address for address, _, _ in peer.received] == ["h2:9092", "h2:9092"]


def test_another_broker_is_asked_after_one_without_a_controller() -> None:
    peer = ScriptedPeer(lambda _, request: MetadataResponse())
    two = AdminClient(peer, ["h1:9092", "h2:9092"], timeout_ms=250)
    with pytest.raises(NoBrokerAnswers, match="there is no controller"):
        new_loop().run_until_complete(two.create_topic("orders"))
    assert [address for address, _, _ in peer.received] == ["h1:9092", "h2:9092"]


def test_pauses_double_up_to_a_second() -> None:
    loop = new_loop()
    asked_at: list[float] = []

    def note(_: RequestHeader, request: Message) -> Message:
        asked_at.append(loop.time())
        return MetadataResponse()

    with pytest.raises(NoBrokerAnswers):
        loop.run_until_complete(AdminClient(ScriptedPeer(note), ["h1:9092"], timeout_ms=4_000).create_topic("orders"))
    assert [round(time, 3) for time in asked_at] == [0, 0.1, 0.3, 0.7, 1.5, 2.5, 3.5]
