"""AlterUserScramCredentials (key 51, version 0): refused, because no listener authenticates by SCRAM.

A credential that is to be deleted does not exist. Each user has one result.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

NO_SCRAM = ApiError(
    Errors.UNSUPPORTED_SASL_MECHANISM,
    "Understudy authenticates no clients yet, so it stores no SCRAM credentials; leave the credential out",
)
NOT_FOUND = ApiError(Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


async def handle(
    services: BrokerServices, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    errors = {deletion.name: NOT_FOUND for deletion in request.deletions}
    errors |= {upsertion.name: NO_SCRAM for upsertion in request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(user=user, error_code=why.error, error_message=why.message)
            for user, why in errors.items()
        )
    )


SERVES = Serves(request=AlterUserScramCredentialsRequest, versions=(0, 0), handle=handle)
