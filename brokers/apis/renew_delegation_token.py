"""RenewDelegationToken (key 39, versions 0 to 2): refused, as on every PLAINTEXT listener of Kafka."""

from __future__ import annotations

from understudy.brokers.apis.no_authorizer import NO_TIMESTAMP, NO_TOKENS
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


async def handle(
    services: BrokerServices, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=NO_TOKENS, expiry_timestamp_ms=NO_TIMESTAMP)


SERVES = Serves(request=RenewDelegationTokenRequest, versions=(0, 2), handle=handle)
