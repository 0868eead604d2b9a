"""DescribeGroups (key 15, versions 0 to 5): state and members of groups. Mirrors `handleDescribeGroupsRequest`."""

from __future__ import annotations

from typing import Final

from understudy.brokers.apis.authorized_operations import EVERY_GROUP_OPERATION
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.describe_groups import (
    AUTHORIZED_OPERATIONS_OMITTED,
    DescribedGroup,
    DescribedGroupMember,
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
    error, summary = services.groups.administration.describe_group(group_id)
    has_operations = wants_operations and error is Errors.NONE
    return DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=summary.state,
        protocol_type=summary.protocol_type,
        protocol_data=summary.protocol,
        members=tuple(
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in summary.members
        ),
        authorized_operations=EVERY_GROUP_OPERATION if has_operations else AUTHORIZED_OPERATIONS_OMITTED,
    )


SERVES = Serves(request=DescribeGroupsRequest, versions=(0, 5), handle=handle)
