"""DeleteGroups (key 42): an operator deletes groups without members, and their offsets (KIP-229).

Versions: 2 flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32


class DeleteGroupsRequest(Message, frozen=True, kw_only=True):
    groups_names: tuple[str, ...] = ()


class DeleteGroupsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


class DeletableGroupResult(Message, frozen=True, kw_only=True):
    group_id: str = ""
    error_code: int16 = 0
