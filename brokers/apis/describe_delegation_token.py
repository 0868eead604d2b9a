"""DescribeDelegationToken (key 41, versions 0 to 3): refused, as on every PLAINTEXT listener of Kafka."""

from __future__ import annotations

from understudy.brokers.apis.no_authorizer import NO_TOKENS
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


async def handle(
    services: BrokerServices, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=NO_TOKENS)


SERVES = Serves(request=DescribeDelegationTokenRequest, versions=(0, 3), handle=handle)
