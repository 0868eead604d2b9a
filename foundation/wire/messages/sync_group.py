"""SyncGroup (key 14): a member waits for its assignment; the leader sends all assignments.

Versions: 1 throttle time; 3 static members (KIP-345); 4 flexible; 5 the protocol's type and name, to be compared with
the group's (KIP-559).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, since


class SyncGroupRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5), ignorable] = None
    protocol_name: Annotated[str | None, since(5), ignorable] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupRequestAssignment(Message, frozen=True, kw_only=True):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
    protocol_type: Annotated[str | None, since(5), ignorable] = None
    protocol_name: Annotated[str | None, since(5), ignorable] = None
    assignment: bytes = b""
