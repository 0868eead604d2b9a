"""DescribeUserScramCredentials (key 50, version 0): no user has SCRAM credentials.

A user that is named is RESOURCE_NOT_FOUND. Mirrors `ZkAdminManager.describeUserScramCredentials`.
"""

from __future__ import annotations

from collections import Counter

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


async def handle(
    services: BrokerServices, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    named = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message="", results=tuple(_result(user, times) for user, times in named.items())
    )


def _result(user: str, times: int) -> DescribeUserScramCredentialsResult:
    why = error_of(user, times)
    return DescribeUserScramCredentialsResult(user=user, error_code=why.error, error_message=why.message)


def error_of(user: str, times: int) -> ApiError:
    """Return the error of a user whom a request names once or more. Pure."""
    if not user:
        return ApiError(Errors.RESOURCE_NOT_FOUND, "Username must not be empty")
    if times > 1:
        return ApiError(
            Errors.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    return ApiError(Errors.RESOURCE_NOT_FOUND, f"Attempt to describe a user credential that does not exist: {user}")


SERVES = Serves(request=DescribeUserScramCredentialsRequest, versions=(0, 0), handle=handle)
