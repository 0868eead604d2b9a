"""Requests about records: to look up offsets, and to read, append and delete records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from understudy.clusters.clients.cluster_requests import ClusterRequests
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from understudy.foundation.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from understudy.foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from understudy.foundation.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from understudy.foundation.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from understudy.foundation.wire.nested_topics import by_partition, nested

READ_COMMITTED: Final = 1
INIT_PRODUCER_ID_VERSION: Final = 4
NOT_THE_LEADER: Final = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of a broker that does not lead a partition, or not yet."""
OFFSETS_LATER: Final = NOT_THE_LEADER | {
    Errors.OFFSET_NOT_AVAILABLE,
    Errors.FENCED_LEADER_EPOCH,
    Errors.UNKNOWN_LEADER_EPOCH,
}
"""Errors after which a leader can be asked for an offset again."""


class RecordRequests(ClusterRequests):
    """Looks up offsets and log directories, deletes records, and gets producer ids."""

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        """Return the leaders' offsets at timestamps. Returns as `ask_leaders`. Mirrors `ListOffsetsHandler`.

        Args:
            timestamps: milliseconds since 1970, or the constants of `understudy.foundation.wire.messages.list_offsets`.
        """
        return await self.ask_leaders(
            timestamps,
            lambda asked: list_offsets_request(dict(sorted(asked.items()))),
            ListOffsetsResponse,
            lambda answer: by_partition(answer.topics),
            again_after=OFFSETS_LATER,
        )

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, DeleteRecordsPartitionResult]:
        """Delete the records before offsets, and return the leaders' answers. Returns as `ask_leaders`."""

        def request_of(asked: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
            partitions = {
                each: DeleteRecordsPartition(partition_index=each.partition, offset=offset)
                for each, offset in sorted(asked.items())
            }
            return DeleteRecordsRequest(
                topics=nested(DeleteRecordsTopic, partitions), timeout_ms=self._request_timeout_ms
            )

        return await self.ask_leaders(
            offsets,
            request_of,
            DeleteRecordsResponse,
            lambda answer: by_partition(answer.topics),
            again_after=NOT_THE_LEADER | {Errors.REPLICA_NOT_AVAILABLE},
        )

    async def describe_log_dirs(self, broker: int) -> DescribeLogDirsResponse:
        """Return the log directories of a broker with all replicas in them."""
        return await self.ask_broker(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)

    async def init_producer_id(self) -> InitProducerIdResponse:
        """Return a new producer id, or why there is none."""
        return await self.ask_any(InitProducerIdRequest(), InitProducerIdResponse, max_version=INIT_PRODUCER_ID_VERSION)


def list_offsets_request(timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0) -> ListOffsetsRequest:
    """Return a consumer's request for the offsets of partitions at timestamps."""
    partitions = {
        each: ListOffsetsPartition(partition_index=each.partition, timestamp=timestamp)
        for each, timestamp in timestamps.items()
    }
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=nested(ListOffsetsTopic, partitions)
    )


def fetch_request(
    offsets: Mapping[TopicPartition, int],
    *,
    partition_max_bytes: int,
    max_bytes: int,
    max_wait_ms: int = 0,
    isolation_level: int = 0,
    last_epochs: Mapping[TopicPartition, int] | None = None,
) -> FetchRequest:
    """Return a consumer's request for the records from offsets on.

    Args:
        last_epochs: the leader epoch of the last record read, by which the leader finds divergence.
    """
    epochs = last_epochs or {}
    partitions = {
        each: FetchPartition(
            partition=each.partition,
            fetch_offset=offset,
            last_fetched_epoch=epochs.get(each, -1),
            partition_max_bytes=partition_max_bytes,
        )
        for each, offset in offsets.items()
    }
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=nested(lambda name, partitions: FetchTopic(topic=name, partitions=partitions), partitions),
    )


def produce_request(batches: Mapping[TopicPartition, bytes], *, acks: int, timeout_ms: int) -> ProduceRequest:
    """Return the request to append one batch to each partition."""
    data = {each: PartitionProduceData(index=each.partition, records=batch) for each, batch in batches.items()}
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=nested(lambda name, partitions: TopicProduceData(name=name, partition_data=partitions), data),
    )
