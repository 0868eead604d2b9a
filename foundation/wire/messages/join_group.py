"""JoinGroup (key 11): a member joins a group, or joins it again, and waits until the group is complete.

Versions: 1 rebalance timeout (KIP-62); 2 throttle time; 4 a new member joins twice, the second time with the id it was
given (KIP-394); 5 static members (KIP-345); 6 flexible; 7 the protocol type in the response (KIP-559); 8 the reason
(KIP-800); 9 `skip_assignment` (KIP-814).
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, nullable_since, since

UNKNOWN_MEMBER_ID: Final = ""
"""Member id of a member that does not have an id yet."""
UNKNOWN_GENERATION_ID: Final = -1


class JoinGroupRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: Annotated[int32, since(1), ignorable] = -1
    """How long the group waits for the member to join again; the session timeout in version 0."""
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5)] = None
    """The id of a static member, which stays the same when its process starts again."""
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    """In the order of the member's preference."""
    reason: Annotated[str | None, since(8), ignorable] = None


class JoinGroupRequestProtocol(Message, frozen=True, kw_only=True):
    name: str = ""
    metadata: bytes = b""


class JoinGroupResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(2), ignorable] = 0
    error_code: int16 = 0
    generation_id: int32 = UNKNOWN_GENERATION_ID
    protocol_type: Annotated[str | None, since(7), ignorable] = None
    protocol_name: Annotated[str | None, nullable_since(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, since(9)] = False
    """The leader must not compute an assignment: the group keeps the one it has."""
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
    """All members, for the leader only."""


class JoinGroupResponseMember(Message, frozen=True, kw_only=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5), ignorable] = None
    metadata: bytes = b""
