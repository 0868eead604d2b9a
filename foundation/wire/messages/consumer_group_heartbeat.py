"""ConsumerGroupHeartbeat (key 68): a member of a group of the new protocol joins, stays or leaves (KIP-848).

It is flexible.
"""

from __future__ import annotations

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, int16, int32


class ConsumerGroupHeartbeatRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    """0 to join, -1 to leave, -2 to leave as a static member that comes back."""
    instance_id: str | None = None
    """None, here and below: unchanged since the last request, or not used."""
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    server_assignor: str | None = None
    topic_partitions: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None = None


class ConsumerGroupHeartbeatRequestTopicPartitions(Message, frozen=True, kw_only=True):
    topic_id: TopicId = NO_TOPIC_ID
    partitions: tuple[int32, ...] = ()


class ConsumerGroupHeartbeatResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None


class Assignment(Message, frozen=True, kw_only=True):
    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...] = ()


class ConsumerGroupHeartbeatResponseTopicPartitions(Message, frozen=True, kw_only=True):
    topic_id: TopicId = NO_TOPIC_ID
    partitions: tuple[int32, ...] = ()
