"""Reads and writes `partition.metadata`, which has the topic's id in a partition's folder.

Mirrors `PartitionMetadataFile`.
"""

from __future__ import annotations

import re

from understudy.foundation.cluster.identifiers import TopicId, topic_id_to_bytes

_CONTENT = re.compile(r"version: 0\ntopic_id: (\S+)\n?")


class MalformedPartitionMetadata(ValueError):
    """A `partition.metadata` that cannot be read. The message names the file and what was expected."""


def encode_topic_id(topic_id: TopicId) -> bytes:
    """Return the text of a file with a topic's id."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def decode_topic_id(name: str, data: bytes) -> TopicId:
    """Return the topic's id in a file.

    Raises:
        MalformedPartitionMetadata: it is no such file.
    """
    found = _CONTENT.fullmatch(data.decode(errors="replace"))
    if found is not None:
        topic_id = TopicId(found[1])
        try:
            topic_id_to_bytes(topic_id)
        except ValueError:
            found = None
        else:
            return topic_id
    raise MalformedPartitionMetadata(
        f"Failed to read the partition metadata file {name}: it has {data[:80]!r}; expected 'version: 0' and "
        "'topic_id: ID' with an ID of 22 characters"
    )
