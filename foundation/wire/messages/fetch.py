"""Fetch (key 1): records, to followers and to consumers alike.

Versions: 1 throttle time; 3 total size; 4 isolation; 5 log start offset; 7 sessions (KIP-227); 9 leader epoch (KIP-320); 11
rack (KIP-392); 12 flexible, divergence (KIP-595); 13 topic ids; 15 replica state (KIP-903); 16 node endpoints (KIP-951); 17
directory id (KIP-853).
"""

from __future__ import annotations

from typing import Annotated

from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from foundation.wire.schema import Message, ignorable, int8, int16, int32, int64, since, tag, until


class ReplicaState(Message, frozen=True, kw_only=True):
    replica_id: int32 = -1
    replica_epoch: int64 = -1


class FetchRequest(Message, frozen=True, kw_only=True):
    cluster_id: Annotated[str | None, since(12), tag(0), ignorable] = None
    replica_id: Annotated[int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tag(1)] = ReplicaState()
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: Annotated[int32, since(3), ignorable] = 0x7FFFFFFF
    isolation_level: Annotated[int8, since(4), ignorable] = 0
    session_id: Annotated[int32, since(7), ignorable] = 0
    session_epoch: Annotated[int32, since(7), ignorable] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], since(7)] = ()
    rack_id: Annotated[str, since(11), ignorable] = ""


class FetchTopic(Message, frozen=True, kw_only=True):
    topic: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[TopicId, since(13), ignorable] = NO_TOPIC_ID
    partitions: tuple[FetchPartition, ...] = ()


class FetchPartition(Message, frozen=True, kw_only=True):
    partition: int32 = 0
    current_leader_epoch: Annotated[int32, since(9), ignorable] = -1
    fetch_offset: int64 = 0
    last_fetched_epoch: Annotated[int32, since(12)] = -1
    log_start_offset: Annotated[int64, since(5), ignorable] = -1
    partition_max_bytes: int32 = 0
    replica_directory_id: Annotated[TopicId, since(17), tag(0), ignorable] = NO_TOPIC_ID


class ForgottenTopic(Message, frozen=True, kw_only=True):
    topic: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[TopicId, since(13), ignorable] = NO_TOPIC_ID
    partitions: tuple[int32, ...] = ()


class FetchResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: Annotated[int16, since(7), ignorable] = 0
    session_id: Annotated[int32, since(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(16), tag(0)] = ()


class FetchableTopicResponse(Message, frozen=True, kw_only=True):
    topic: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[TopicId, since(13), ignorable] = NO_TOPIC_ID
    partitions: tuple[PartitionData, ...] = ()


class EpochEndOffset(Message, frozen=True, kw_only=True):
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Message, frozen=True, kw_only=True):
    leader_id: int32 = -1
    leader_epoch: int32 = -1


class SnapshotId(Message, frozen=True, kw_only=True):
    end_offset: int64 = -1
    epoch: int32 = -1


class PartitionData(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: Annotated[int64, since(4), ignorable] = -1
    log_start_offset: Annotated[int64, since(5), ignorable] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tag(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = SnapshotId()
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, since(4), ignorable] = None
    preferred_read_replica: Annotated[int32, since(11)] = -1
    records: bytes | None = None


class AbortedTransaction(Message, frozen=True, kw_only=True):
    producer_id: int64 = 0
    first_offset: int64 = 0


class NodeEndpoint(Message, frozen=True, kw_only=True):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None
