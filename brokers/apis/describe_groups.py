"""DescribeGroups (key 15, versions 0 to 5): state and members of groups. Mirrors `handleDescribeGroupsRequest`."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from understudy.brokers.apis.authorized_operations import EVERY_GROUP_OPERATION
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

FIRST_VERSION_WITH_OPERATIONS: Final = 3


async def handle(
    services: BrokerServices, request: DescribeGroupsRequest, context: RequestContext
) -> DescribeGroupsResponse:
    wants_operations = request.include_authorized_operations and context.api_version >= FIRST_VERSION_WITH_OPERATIONS
    return DescribeGroupsResponse(
        groups=tuple(_describe(services, group_id, wants_operations) for group_id in request.groups)
    )


def _describe(services: BrokerServices, group_id: str, wants_operations: bool) -> DescribedGroup:
    described = services.groups.administration.describe_group(group_id)
    if wants_operations and described.error_code == Errors.NONE:
        return replace(described, authorized_operations=EVERY_GROUP_OPERATION)
    return described


SERVES = Serves(request=DescribeGroupsRequest, versions=(0, 5), handle=handle)
