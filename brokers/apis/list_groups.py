"""ListGroups (key 16, versions 0 to 5): the groups that this broker coordinates. Mirrors `handleListGroupsRequest`."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.coordinator.group.group_administration import CLASSIC
from understudy.foundation.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def handle(services: BrokerServices, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    error, groups = services.groups.administration.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(
        error_code=error,
        groups=tuple(
            ListedGroup(
                group_id=group.group_id, protocol_type=group.protocol_type, group_state=group.state, group_type=CLASSIC
            )
            for group in groups
        ),
    )


SERVES = Serves(request=ListGroupsRequest, versions=(0, 5), handle=handle)
