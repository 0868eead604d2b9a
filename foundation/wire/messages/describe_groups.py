"""DescribeGroups (key 15): the state and the members of groups.

Versions: 1 throttle time; 3 authorized operations (KIP-430); 4 static members (KIP-345); 5 flexible.
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, since

AUTHORIZED_OPERATIONS_OMITTED: Final = -(1 << 31)


class DescribeGroupsRequest(Message, frozen=True, kw_only=True):
    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, since(3)] = False


class DescribeGroupsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    groups: tuple[DescribedGroup, ...] = ()


class DescribedGroup(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    """The protocol's name; empty unless the group is Stable."""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[int32, since(3)] = AUTHORIZED_OPERATIONS_OMITTED


class DescribedGroupMember(Message, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(4), ignorable] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    """Empty unless the group is Stable."""
    member_assignment: bytes = b""
