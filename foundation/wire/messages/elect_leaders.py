"""ElectLeaders (key 43): preferred or unclean leader elections on demand (KIP-183, KIP-460).

Versions: 1 election type and top-level error; 2 flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int8, int16, int32, since


class ElectLeadersRequest(Message, frozen=True, kw_only=True):
    election_type: Annotated[int8, since(1)] = 0
    """0 preferred; 1 unclean: the first live replica if no member of the ISR is live."""
    topic_partitions: tuple[TopicPartitions, ...] | None = None
    """None: all partitions."""
    timeout_ms: int32 = 60000


class TopicPartitions(Message, frozen=True, kw_only=True):
    topic: str = ""
    partitions: tuple[int32, ...] = ()


class ElectLeadersResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since(1)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


class ReplicaElectionResult(Message, frozen=True, kw_only=True):
    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class PartitionResult(Message, frozen=True, kw_only=True):
    partition_id: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
