"""ListGroups (key 16): the groups that a broker coordinates.

Versions: 1 throttle time; 3 flexible; 4 states, and a filter by them (KIP-518); 5 types, and a filter by them
(KIP-848).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int32, since


class ListGroupsRequest(Message, frozen=True, kw_only=True):
    states_filter: Annotated[tuple[str, ...], since(4)] = ()
    """Empty: groups in every state."""
    types_filter: Annotated[tuple[str, ...], since(5)] = ()
    """Empty: groups of every type."""


class ListGroupsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: int16 = 0
    groups: tuple[ListedGroup, ...] = ()


class ListedGroup(Message, frozen=True, kw_only=True):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, since(4), ignorable] = ""
    group_type: Annotated[str, since(5), ignorable] = ""
