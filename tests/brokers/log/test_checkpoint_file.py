"""Checkpoint files have Kafka's format, and the error of a damaged file names the line."""

from __future__ import annotations

import pytest

from understudy.brokers.log.checkpoint_file import (
    EpochEntry,
    MalformedCheckpoint,
    decode_epochs,
    decode_offsets,
    encode_epochs,
    encode_offsets,
)
from understudy.foundation.cluster.identifiers import TopicPartition

NAME = "replication-offset-checkpoint"


def test_offsets_by_partition() -> None:
    offsets = {TopicPartition("orders", 10): 7, TopicPartition("orders", 2): 0, TopicPartition("a.b_c-d", 0): 2**40}
    text = encode_offsets(offsets)
    assert text == b"0\n3\na.b_c-d 0 1099511627776\norders 2 0\norders 10 7\n"
    assert decode_offsets(NAME, text) == offsets
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(NAME, b"0\n0\n") == {}


def test_epochs() -> None:
    entries = [EpochEntry(0, 0), EpochEntry(3, 120)]
    assert encode_epochs(entries) == b"0\n2\n0 0\n3 120\n"
    assert decode_epochs("leader-epoch-checkpoint", encode_epochs(entries)) == entries
    assert decode_epochs("leader-epoch-checkpoint", b"0\n2\n0 0\n3 120") == entries, "without a last newline"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "replication-offset-checkpoint:1 is ''; expected a version"),
        (b"x\n0\n", ":1 is 'x'; expected a version"),
        (b"1\n0\n", "Unrecognized version of the checkpoint file replication-offset-checkpoint: 1; expected 0"),
        (b"0\n", ":2 is ''; expected the number of entries"),
        (b"0\n-1\n", ":2 is '-1'"),
        (b"0\n2\norders 0 1\n", "Expected 2 entries in checkpoint file replication-offset-checkpoint, but found 1"),
        (b"0\n0\norders 0 1\n", "Expected 0 entries in checkpoint file replication-offset-checkpoint, but found 1"),
        (b"0\n1\norders 0\n", ":3 is 'orders 0'; expected TOPIC PARTITION OFFSET"),
        (b"0\n1\norders 0 x\n", ":3 is 'orders 0 x'"),
        (b"0\n1\n\xff 0 1\n", "is not UTF-8"),
    ],
)
def test_damage_is_named(text: bytes, message: str) -> None:
    with pytest.raises(MalformedCheckpoint, match=message.replace(".", r"\.")):
        decode_offsets(NAME, text)
