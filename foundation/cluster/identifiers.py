"""Identifiers of brokers, topics and partitions.

Mirrors `org.apache.kafka.common.TopicPartition` and `org.apache.kafka.common.Uuid`. `TopicPartition` is a `NamedTuple`
because a takeover hashes and sorts hundreds of thousands of them.
"""

from __future__ import annotations

import base64
import random
from functools import lru_cache
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)

TopicId = NewType("TopicId", str)
"""A topic's id as Kafka prints it: 16 bytes as 22 characters of URL-safe base64, without padding."""

NO_TOPIC_ID = TopicId("A" * 22)
"""Id of 16 zero bytes; in a request or response it means that the topic id is not known."""

_METADATA_TOPIC_ID = TopicId("A" * 21 + "Q")

_KEPT_TOPIC_IDS = 1 << 14
"""Maximum number of topic ids that are kept in both forms: each Fetch has one for every topic."""


class TopicPartition(NamedTuple):
    """A topic's name and the number of one of its partitions.

    A named tuple, because a failover hashes and sorts hundreds of thousands of them.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def random_topic_id(source: random.Random) -> TopicId:
    """Draw a new topic id from `source`, as `Uuid.randomUuid` does.

    It is a version-4 UUID that is not reserved and does not start with a dash.
    """
    while True:
        raw = bytearray(source.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = topic_id_from_bytes(bytes(raw))
        if not text.startswith("-") and text not in (NO_TOPIC_ID, _METADATA_TOPIC_ID):
            return text


@lru_cache(_KEPT_TOPIC_IDS)
def topic_id_from_bytes(raw: bytes) -> TopicId:
    """Return the text of a topic id of 16 bytes."""
    return TopicId(base64.urlsafe_b64encode(raw)[:22].decode("ascii"))


@lru_cache(_KEPT_TOPIC_IDS)
def topic_id_to_bytes(topic_id: TopicId) -> bytes:
    """Return the 16 bytes of `topic_id`.

    Raises:
        ValueError: it is not 22 characters of URL-safe base64.
    """
    raw = base64.urlsafe_b64decode(topic_id + "==")
    # The decoder ignores characters outside its alphabet; the two lengths show whether there were any.
    if len(topic_id) != 22 or len(raw) != 16:
        raise ValueError(f"topic id {topic_id!r}; expected 22 characters of URL-safe base64 that stand for 16 bytes")
    return raw
