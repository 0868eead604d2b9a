"""Tests of the bytes that members exchange."""

from __future__ import annotations

import struct

import pytest

from understudy.clusters.clients.assignors.protocol import (
    BAD_BYTES,
    PROTOCOLS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from understudy.clusters.clients.assignors.subscriptions import Subscription
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from understudy.foundation.wire.nested_topics import by_topic
from understudy.foundation.wire.version_prefixed import encode_prefixed

OWNED = (TopicPartition("t", 0), TopicPartition("t", 3), TopicPartition("u", 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_subscription_is_read_as_it_was_written(protocol: str) -> None:
    eager = protocol != "cooperative-sticky"
    subscription = Subscription(("t", "u"), () if eager else OWNED, 7, None, "r1")
    found = decode_subscription(protocol, encode_subscription(protocol, subscription, OWNED, 7), "static")
    kept = OWNED if protocol in ("sticky", "cooperative-sticky") else ()
    assert found == Subscription(("t", "u"), kept, 7, "static", "r1")


def test_sticky_member_without_an_assignment_sends_no_data() -> None:
    first = Subscription(("t",))
    assert decode_subscription("sticky", encode_subscription("sticky", first)) == first


def test_sticky_data_are_kafkas() -> None:
    """An array of topics with their partitions, and the generation, which the first version lacks."""
    data = struct.pack(">ih1sii", 1, 1, b"t", 1, 5)
    for user_data, generation in ((data + struct.pack(">i", 9), 9), (data, -1)):
        message = ConsumerProtocolSubscription(topics=("t",), user_data=user_data)
        found = decode_subscription("sticky", encode_prefixed(message, 1))
        assert (found.owned, found.generation) == ((TopicPartition("t", 5),), generation)
    assert encode_subscription("sticky", Subscription(("t",)), [TopicPartition("t", 5)], 9).count(data) == 1


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0\1", b"\0\0\0\1\0\1", b"\0\0\0\1\0\1\xff\0\0\0\0", b"\xff" * 9])
def test_sticky_data_that_cannot_be_read_are_left_out(data: bytes) -> None:
    message = encode_prefixed(ConsumerProtocolSubscription(topics=("t",), user_data=data), 1)
    assert decode_subscription("sticky", message).owned == ()


def test_generation_of_an_old_cooperative_member_is_in_its_data() -> None:
    message = ConsumerProtocolSubscription(topics=("t",), user_data=struct.pack(">i", 4))
    assert decode_subscription("cooperative-sticky", encode_prefixed(message, 1)).generation == 4


def test_assignment_is_read_as_it_was_written() -> None:
    assert decode_assignment(encode_assignment(OWNED)) == OWNED
    assert decode_assignment(b"") == ()
    assert by_topic(OWNED) == {"t": (0, 3), "u": (1,)}


@pytest.mark.parametrize("data", [b"\0", b"\0\1\0\0\0\5"])
def test_bytes_that_are_no_assignment_are_refused(data: bytes) -> None:
    with pytest.raises(BAD_BYTES):
        decode_assignment(data)
