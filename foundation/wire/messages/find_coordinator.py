"""FindCoordinator (key 10): the broker that coordinates a group, or the transactions of a transactional id.

Versions: 1 key type and messages; 3 flexible; 4 any number of keys (KIP-699); 5 a new error code (KIP-890); 6 share
groups (KIP-932).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, between, ignorable, int8, int16, int32, since, until


class FindCoordinatorRequest(Message, frozen=True, kw_only=True):
    key: Annotated[str, until(3)] = ""
    key_type: Annotated[int8, since(1)] = 0
    """0 group, 1 transactional id, 2 share group."""
    coordinator_keys: Annotated[tuple[str, ...], since(4)] = ()


class FindCoordinatorResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: Annotated[int16, until(3)] = 0
    error_message: Annotated[str | None, between(1, 3), ignorable] = None
    node_id: Annotated[int32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[int32, until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], since(4)] = ()


class Coordinator(Message, frozen=True, kw_only=True):
    key: Annotated[str, since(4)] = ""
    node_id: Annotated[int32, since(4)] = 0
    host: Annotated[str, since(4)] = ""
    port: Annotated[int32, since(4)] = 0
    error_code: Annotated[int16, since(4)] = 0
    error_message: Annotated[str | None, since(4), ignorable] = None
