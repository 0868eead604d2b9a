"""Heartbeat (key 12): a member renews its session with the coordinator of its group.

Versions: 1 throttle time; 3 static members (KIP-345); 4 flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, since


class HeartbeatRequest(Message, frozen=True, kw_only=True):
    group_id: str = ""
    generation_id: int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
