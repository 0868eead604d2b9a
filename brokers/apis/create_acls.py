"""CreateAcls (key 30, versions 0 to 3): every ACL is refused, because there is no authorizer."""

from __future__ import annotations

from understudy.brokers.apis.no_authorizer import NO_AUTHORIZER
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


async def handle(services: BrokerServices, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=NO_AUTHORIZER.error, error_message=NO_AUTHORIZER.message)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


SERVES = Serves(request=CreateAclsRequest, versions=(0, 3), handle=handle)
