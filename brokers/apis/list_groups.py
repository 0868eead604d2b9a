"""ListGroups (key 16, versions 0 to 5): the groups that this broker coordinates. Mirrors `handleListGroupsRequest`."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(services: BrokerServices, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    error, groups = services.groups.administration.list_groups(request.states_filter, request.types_filter)
    return ListGroupsResponse(error_code=error, groups=tuple(groups))


SERVES = Serves(request=ListGroupsRequest, versions=(0, 5), handle=handle)
