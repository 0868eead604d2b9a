"""`AdminClient` against a server whose responses are scripted."""

from __future__ import annotations

import asyncio

import pytest

from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import TopicPartition
from foundation.wire.headers import RequestHeader
from foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from foundation.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from foundation.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from foundation.wire.schema import Message
from tests.brokers.peers import ScriptedPeer
from understudy.admin_client import AdminClient

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
