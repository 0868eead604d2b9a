"""CreateDelegationToken (key 38, versions 0 to 3): refused, as on every PLAINTEXT listener of Kafka.

Version 3 adds an owner other than the requester, and the requester to the answer.
"""

from __future__ import annotations

from understudy.brokers.apis.no_authorizer import ANONYMOUS, NO_TIMESTAMP, NO_TOKENS
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)

FIRST_VERSION_WITH_REQUESTER = 3


async def handle(
    services: BrokerServices, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    owner = (
        (request.owner_principal_type or "", request.owner_principal_name)
        if request.owner_principal_name
        else ANONYMOUS
    )
    requester = ANONYMOUS if context.api_version >= FIRST_VERSION_WITH_REQUESTER else ("", "")
    return CreateDelegationTokenResponse(
        error_code=NO_TOKENS,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )


SERVES = Serves(request=CreateDelegationTokenRequest, versions=(0, 3), handle=handle)
