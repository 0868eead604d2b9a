"""LeaveGroup (key 13): a member leaves its group, or an operator removes members.

Versions: 1 throttle time; 3 any number of members, static ones among them (KIP-345); 4 flexible; 5 the reason
(KIP-800).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, since, until


class LeaveGroupRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], since(3)] = ()


class MemberIdentity(Message, frozen=True, kw_only=True):
    member_id: Annotated[str, since(3)] = ""
    """Empty if a static member is removed by its instance id alone."""
    group_instance_id: Annotated[str | None, since(3)] = None
    reason: Annotated[str | None, since(5), ignorable] = None


class LeaveGroupResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
    members: Annotated[tuple[MemberResponse, ...], since(3)] = ()


class MemberResponse(Message, frozen=True, kw_only=True):
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    error_code: Annotated[int16, since(3)] = 0
