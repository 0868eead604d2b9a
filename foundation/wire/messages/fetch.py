"""Fetch (key 1): records for followers and consumers.

Versions: 1 throttle time; 3 total size; 4 isolation; 5 log start offset; 7 sessions (KIP-227); 9 leader epoch
(KIP-320); 11 rack (KIP-392); 12 flexible, divergence (KIP-595); 13 topic ids; 15 replica state (KIP-903); 16 node
endpoints (KIP-951); 17 directory id (KIP-853).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, int64, since, tag, until


class FetchReplicaState(Message, frozen=True, kw_only=True):
    replica_id: int32 = -1
    replica_epoch: int64 = -1
    """The czxid of the follower's registration; -1: unknown."""


class FetchRequest(Message, frozen=True, kw_only=True):
    cluster_id: Annotated[str | None, since(12), tag(0), ignorable] = None
    replica_id: Annotated[int32, until(14)] = -1
    """Broker id of the follower; -1: a consumer. Later versions have it in `replica_state`."""
    replica_state: Annotated[FetchReplicaState, since(15), tag(1)] = FetchReplicaState()
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: Annotated[int32, since(3), ignorable] = 0x7FFFFFFF
    isolation_level: Annotated[int8, since(4), ignorable] = 0
    """0 read uncommitted, 1 read committed."""
    session_id: Annotated[int32, since(7), ignorable] = 0
    session_epoch: Annotated[int32, since(7), ignorable] = -1
    """0 asks for a new session, -1 for none; otherwise the request is incremental (KIP-227)."""
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], since(7)] = ()
    """Partitions to drop from the session."""
    rack_id: Annotated[str, since(11), ignorable] = ""


class FetchTopic(Message, frozen=True, kw_only=True):
    topic: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[TopicId, since(13), ignorable] = NO_TOPIC_ID
    partitions: tuple[FetchPartition, ...] = ()


class FetchPartition(Message, frozen=True, kw_only=True):
    partition: int32 = 0
    current_leader_epoch: Annotated[int32, since(9), ignorable] = -1
    """The leader epoch that the sender knows; a wrong one is refused. -1 is not checked."""
    fetch_offset: int64 = 0
    last_fetched_epoch: Annotated[int32, since(12)] = -1
    """Leader epoch of the follower's last record, by which the leader finds divergence. -1: none, or a consumer."""
    log_start_offset: Annotated[int64, since(5), ignorable] = -1
    """The follower's log start offset; -1 from a consumer."""
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
    """0: no session."""
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(16), tag(0)] = ()
    """The endpoints of the leaders in `current_leader`."""


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
    """The end offset to which the follower must truncate, if it is set."""
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tag(1)] = LeaderIdAndEpoch()
    """Set with the errors for a wrong leader or leader epoch."""
    snapshot_id: Annotated[SnapshotId, since(12), tag(2)] = SnapshotId()
    aborted_transactions: Annotated[tuple[AbortedTransaction, ...] | None, since(4), ignorable] = None
    preferred_read_replica: Annotated[int32, since(11)] = -1
    """-1: keep reading from the leader."""
    records: bytes | None = None
    """Record batches as in the log; the last may be incomplete."""


class AbortedTransaction(Message, frozen=True, kw_only=True):
    producer_id: int64 = 0
    first_offset: int64 = 0


class NodeEndpoint(Message, frozen=True, kw_only=True):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: str | None = None
