"""DeleteGroups (key 42, versions 0 to 2): an operator deletes groups without members (KIP-229).

Mirrors `KafkaApis.handleDeleteGroupsRequest`. A group that is named twice is answered once.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(
    services: BrokerServices, request: DeleteGroupsRequest, context: RequestContext
) -> DeleteGroupsResponse:
    errors = services.groups.administration.delete_groups(dict.fromkeys(request.groups_names))
    return DeleteGroupsResponse(
        results=tuple(DeletableGroupResult(group_id=group_id, error_code=error) for group_id, error in errors.items())
    )


SERVES = Serves(request=DeleteGroupsRequest, versions=(0, 2), handle=handle)
