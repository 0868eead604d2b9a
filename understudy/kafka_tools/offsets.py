"""The offsets of partitions as the tools show them, or the error for a partition without one."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import TIMEOUT, ToolError, error_of


async def list_offsets(
    cluster: KafkaCluster, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ToolError]:
    """Return the offset of each partition at its timestamp, -1 for none, or why it is not known.

    Args:
        timestamps: milliseconds since 1970, or the constants of `understudy.foundation.wire.messages.list_offsets`.
    """
    found: dict[TopicPartition, int | ToolError] = dict.fromkeys(timestamps, timed_out("listOffsets"))
    for each, answer in (await cluster.list_offsets(timestamps)).items():
        found[each] = error_of(answer.error_code) if answer.error_code else answer.offset
    return found


def timed_out(call: str) -> ToolError:
    """Return the error of a partition that had no leader in time."""
    return ToolError(TIMEOUT, f"Call(callName={call}) timed out waiting for a node assignment.")
