"""CreateAcls (key 30): create ACLs (KIP-140).

Versions: 1 pattern types (KIP-290); 2 flexible; 3 users as resources (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int8, int16, int32, since


class CreateAclsRequest(Message, frozen=True, kw_only=True):
    creations: tuple[AclCreation, ...] = ()


class AclCreation(Message, frozen=True, kw_only=True):
    resource_type: int8 = 0
    """1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name: str = ""
    resource_pattern_type: Annotated[int8, since(1)] = 3
    """1 any, 2 match, 3 literal, 4 prefixed."""
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    """Kafka's `AclOperation` code; 1 is any."""
    permission_type: int8 = 0
    """1 any, 2 deny, 3 allow."""


class CreateAclsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    results: tuple[AclCreationResult, ...] = ()


class AclCreationResult(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    error_message: str | None = None
