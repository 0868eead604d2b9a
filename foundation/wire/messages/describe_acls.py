"""DescribeAcls (key 29): the ACLs that match a filter (KIP-140).

Versions: 1 pattern types (KIP-290); 2 flexible; 3 users as resources (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int8, int16, int32, since


class DescribeAclsRequest(Message, frozen=True, kw_only=True):
    resource_type_filter: int8 = 0
    """1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name_filter: str | None = None
    """None: any name."""
    pattern_type_filter: Annotated[int8, since(1)] = 3
    """1 any, 2 match, 3 literal, 4 prefixed."""
    principal_filter: str | None = None
    host_filter: str | None = None
    operation: int8 = 0
    """Kafka's `AclOperation` code; 1 is any."""
    permission_type: int8 = 0
    """1 any, 2 deny, 3 allow."""


class DescribeAclsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    resources: tuple[DescribeAclsResource, ...] = ()


class DescribeAclsResource(Message, frozen=True, kw_only=True):
    resource_type: int8 = 0
    resource_name: str = ""
    pattern_type: Annotated[int8, since(1)] = 3
    acls: tuple[AclDescription, ...] = ()


class AclDescription(Message, frozen=True, kw_only=True):
    principal: str = ""
    host: str = ""
    operation: int8 = 0
    permission_type: int8 = 0
