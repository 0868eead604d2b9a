"""DeleteAcls (key 31, versions 0 to 3): every filter is refused, because there is no authorizer."""

from __future__ import annotations

from understudy.brokers.apis.no_authorizer import NO_AUTHORIZER
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


async def handle(services: BrokerServices, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=NO_AUTHORIZER.error, error_message=NO_AUTHORIZER.message)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))


SERVES = Serves(request=DeleteAclsRequest, versions=(0, 3), handle=handle)
