"""The keys and values of the records in `__consumer_offsets`: committed offsets, and groups.

The version of a key says what the record is: 0 and 1 an offset, 2 a group. Versions of an offset: 1 a time at which it
expires; 3 the leader epoch; 4 flexible. Versions of a group: 1 rebalance timeouts; 2 the time of its last change of
state; 3 static members; 4 flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, between, ignorable, int32, int64, nullable_since, since


class OffsetCommitKey(Message, frozen=True, kw_only=True):
    group: str = ""
    topic: str = ""
    partition: int32 = 0


class OffsetCommitValue(Message, frozen=True, kw_only=True):
    offset: int64 = 0
    leader_epoch: Annotated[int32, since(3), ignorable] = -1
    metadata: str = ""
    commit_timestamp: int64 = 0
    expire_timestamp: Annotated[int64, between(1, 1), ignorable] = -1


class GroupMetadataKey(Message, frozen=True, kw_only=True):
    group: Annotated[str, since(2)] = ""


class GroupMetadataValue(Message, frozen=True, kw_only=True):
    protocol_type: str = ""
    generation: int32 = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Annotated[int64, since(2), ignorable] = -1
    members: tuple[MemberMetadata, ...] = ()


class MemberMetadata(Message, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable_since(3), ignorable] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[int32, since(1), ignorable] = -1
    session_timeout: int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""
