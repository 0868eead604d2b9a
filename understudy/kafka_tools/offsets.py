"""Asks the leaders of partitions for offsets, with retries while leaders move. Mirrors `ListOffsetsHandler`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from understudy.clusters.clients.cluster_requests import TryAgain
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import TIMEOUT, ToolError, error_of

_LATER = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.OFFSET_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
    }
)


class Found(NamedTuple):
    """The answer for one partition; offset -1: there is none."""

    offset: int
    timestamp: int


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions of each topic, sorted."""
    found: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition.partition)
    return found


async def leaders_of(cluster: KafkaCluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the leaders of those of `partitions` that have one."""
    wanted = set(partitions)
    metadata = await cluster.metadata(sorted({partition.topic for partition in wanted}), call="listOffsets")
    live = {broker.node_id for broker in metadata.brokers}
    return {
        each: state.leader_id
        for topic in metadata.topics
        for state in topic.partitions
        if (each := TopicPartition(topic.name or "", state.partition_index)) in wanted and state.leader_id in live
    }


async def list_offsets(
    cluster: KafkaCluster, timestamps: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Found | ToolError]:
    """Return the offset of each partition at its timestamp, or why there is none.

    Args:
        timestamps: milliseconds since 1970, or the constants of `understudy.foundation.wire.messages.list_offsets`.
    """
    found: dict[TopicPartition, Found | ToolError] = {}

    async def attempt() -> ListOffsetsResponse:
        open_partitions = [each for each in timestamps if each not in found]
        leaders = await leaders_of(cluster, open_partitions)
        for leader in sorted(set(leaders.values())):
            asked = [each for each in open_partitions if leaders.get(each) == leader]
            await _ask(cluster, leader, asked, timestamps, found)
        if len(found) < len(timestamps):
            raise TryAgain("partitions have no leader")
        return ListOffsetsResponse()

    try:
        await cluster.retried(attempt, call="listOffsets")
    except ToolError as error:
        for each in timestamps:
            if each not in found:
                found[each] = (
                    ToolError(TIMEOUT, "Call(callName=listOffsets) timed out waiting for a node assignment.")
                    if error.kind == TIMEOUT
                    else error
                )
    return found


async def _ask(
    cluster: KafkaCluster,
    leader: int,
    partitions: list[TopicPartition],
    timestamps: Mapping[TopicPartition, int],
    found: dict[TopicPartition, Found | ToolError],
) -> None:
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=number, timestamp=timestamps[TopicPartition(name, number)])
                for number in numbers
            ),
        )
        for name, numbers in by_topic(partitions).items()
    )
    response = await cluster.ask_broker(
        leader, ListOffsetsRequest(replica_id=-1, topics=topics), ListOffsetsResponse, call="listOffsets"
    )
    for topic in response.topics:
        for answer in topic.partitions:
            each = TopicPartition(topic.name, answer.partition_index)
            if answer.error_code == Errors.NONE:
                found[each] = Found(answer.offset, answer.timestamp)
            elif answer.error_code not in _LATER:
                found[each] = error_of(answer.error_code)
