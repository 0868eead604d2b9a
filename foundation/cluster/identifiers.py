"""What things are called: brokers, topics, partitions, replicas.

Mirrors `org.apache.kafka.common.TopicPartition` and `org.apache.kafka.common.Uuid`. `TopicPartition` is a `NamedTuple`
because a takeover hashes and sorts hundreds of thousands of them.
"""

from __future__ import annotations

import base64
import random
from typing import NamedTuple, NewType

BrokerId = NewType("BrokerId", int)

TopicId = NewType("TopicId", str)
"""A topic's id as Kafka prints it: 16 bytes in URL-safe base64 without padding, 22 characters."""

NO_TOPIC_ID = TopicId("A" * 22)
"""The all-zero id: on the wire it means that no id is known."""

_METADATA_TOPIC_ID = TopicId("A" * 21 + "Q")


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def random_topic_id(source: random.Random) -> TopicId:
    """A fresh id drawn from `source`: a version-4 UUID, never reserved, never starting with a dash
    (`Uuid.randomUuid`)."""
    while True:
        raw = bytearray(source.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = topic_id_from_bytes(bytes(raw))
        if not text.startswith("-") and text not in (NO_TOPIC_ID, _METADATA_TOPIC_ID):
            return text


def topic_id_from_bytes(raw: bytes) -> TopicId:
    return TopicId(base64.urlsafe_b64encode(raw)[:22].decode("ascii"))


def topic_id_to_bytes(topic_id: TopicId) -> bytes:
    """The 16 bytes of `topic_id`.

    Raises:
        ValueError: it is not 22 characters of URL-safe base64.
    """
    raw = base64.urlsafe_b64decode(topic_id + "==")
    # The decoder passes over characters outside its alphabet: only in a text of exact length none can hide.
    if len(topic_id) != 22 or len(raw) != 16:
        raise ValueError(f"topic id {topic_id!r}; expected 22 characters of URL-safe base64 that stand for 16 bytes")
    return raw
