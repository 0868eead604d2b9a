"""ConsumerGroupDescribe (key 69): describe groups of the new protocol (KIP-848).

It is flexible.
"""

from __future__ import annotations

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, int16, int32


class ConsumerGroupDescribeRequest(Message, frozen=True, kw_only=True):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class TopicPartitions(Message, frozen=True, kw_only=True):
    topic_id: TopicId = NO_TOPIC_ID
    topic_name: str = ""
    partitions: tuple[int32, ...] = ()


class Assignment(Message, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class ConsumerGroupDescribeResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


class DescribedGroup(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int32 = -2147483648
    """Bits by `AclOperation` code; the least integer if they were not requested."""


class Member(Message, frozen=True, kw_only=True):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
