"""DescribeAcls (key 29, versions 0 to 3): there are no ACLs, because there is no authorizer."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse


async def handle(
    services: BrokerServices, request: DescribeAclsRequest, context: RequestContext
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=Errors.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


SERVES = Serves(request=DescribeAclsRequest, versions=(0, 3), handle=handle)
