"""The assignors by name, and the bytes that members exchange: subscriptions and assignments.

Mirrors `ConsumerProtocol`, and the user data of `StickyAssignor` and `CooperativeStickyAssignor`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from understudy.clusters.clients.assignors.eager import assign_range, assign_round_robin
from understudy.clusters.clients.assignors.sticky import assign_cooperative_sticky, assign_sticky
from understudy.clusters.clients.assignors.subscriptions import NO_GENERATION, Assignor, Subscription
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion
from understudy.foundation.wire.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopic,
)
from understudy.foundation.wire.nested_topics import by_topic
from understudy.foundation.wire.version_prefixed import decode_prefixed, encode_prefixed

SUBSCRIPTION_VERSION: Final = 3
ASSIGNMENT_VERSION: Final = 3


class Protocol(NamedTuple):
    """An assignor, as members of a group use it.

    Attributes:
        is_cooperative: a member keeps its partitions while the group rebalances (KIP-429).
    """

    assign: Assignor
    is_cooperative: bool = False


STICKY = "sticky"
COOPERATIVE_STICKY = "cooperative-sticky"
PROTOCOLS: Final[Mapping[str, Protocol]] = {
    "range": Protocol(assign_range),
    "roundrobin": Protocol(assign_round_robin),
    STICKY: Protocol(assign_sticky),
    COOPERATIVE_STICKY: Protocol(assign_cooperative_sticky, is_cooperative=True),
}
"""The assignors of Kafka's consumer by their names in JoinGroup."""


def encode_subscription(
    protocol: str, subscription: Subscription, last: Iterable[TopicPartition] = (), last_generation: int = NO_GENERATION
) -> bytes:
    """Return the metadata of a member for one protocol.

    Args:
        last: the last assignment, which an eager member has given up; for the sticky assignor.
    """
    return encode_prefixed(
        ConsumerProtocolSubscription(
            topics=subscription.topics,
            user_data=_user_data(protocol, subscription, last, last_generation),
            owned_partitions=tuple(
                OwnedTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic(subscription.owned).items()
            ),
            generation_id=subscription.generation,
            rack_id=subscription.rack,
        ),
        SUBSCRIPTION_VERSION,
    )


def decode_subscription(protocol: str, metadata: bytes, instance_id: str | None = None) -> Subscription:
    """Return the subscription of a member, with what it had last, in the form that the protocol's assignor needs.

    Raises:
        MalformedMessage, UnsupportedVersion: the metadata is no subscription.
    """
    found = decode_prefixed(ConsumerProtocolSubscription, metadata)
    owned = tuple(TopicPartition(each.topic, number) for each in found.owned_partitions for number in each.partitions)
    generation = found.generation_id
    if protocol == STICKY:
        owned, generation = _sticky_data(found.user_data or b"")
    elif protocol == COOPERATIVE_STICKY and generation == NO_GENERATION and len(found.user_data or b"") >= 4:
        (generation,) = struct.unpack_from(">i", found.user_data or b"")
    return Subscription(found.topics, owned, generation, instance_id, found.rack_id)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the bytes of a member's assignment."""
    assigned = tuple(AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items())
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=assigned), ASSIGNMENT_VERSION)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of an assignment; empty bytes are an empty one.

    Raises:
        MalformedMessage, UnsupportedVersion: it is no assignment.
    """
    if not data:
        return ()
    found = decode_prefixed(ConsumerProtocolAssignment, data)
    return tuple(TopicPartition(each.topic, number) for each in found.assigned_partitions for number in each.partitions)


BAD_BYTES = (MalformedMessage, UnsupportedVersion)
"""Exceptions that decoding raises."""


def _user_data(
    protocol: str, subscription: Subscription, last: Iterable[TopicPartition], last_generation: int
) -> bytes | None:
    if protocol == COOPERATIVE_STICKY:
        return struct.pack(">i", subscription.generation)
    topics = by_topic(last)
    if protocol != STICKY or not topics:
        return None
    parts = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join((*parts, struct.pack(">i", last_generation)))


def _sticky_data(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """Return the partitions that a member had, and its generation; none if the bytes cannot be decoded, as in Kafka."""
    owned: list[TopicPartition] = []
    try:
        (topics,) = struct.unpack_from(">i", data)
        place = 4
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", data, place)
            (name,) = struct.unpack_from(f">{size}s", data, place + 2)
            place += 2 + size
            (count,) = struct.unpack_from(">i", data, place)
            owned += (TopicPartition(name.decode(), each) for each in struct.unpack_from(f">{count}i", data, place + 4))
            place += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        return (), NO_GENERATION
    # The first version of the data has no generation.
    generation = struct.unpack_from(">i", data, place)[0] if len(data) >= place + 4 else NO_GENERATION
    return tuple(owned), generation
