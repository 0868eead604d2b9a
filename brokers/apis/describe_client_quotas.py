"""DescribeClientQuotas (key 48, versions 0 and 1): no client has a quota, because this broker enforces none.

A filter is checked as in Kafka. Mirrors `ZkAdminManager.describeClientQuotas`.
"""

from __future__ import annotations

from collections.abc import Iterable

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

ENTITY_TYPES = {"user": "user", "client-id": "client", "ip": "ip"}
"""Types of entities, and their names in Kafka's messages."""


async def handle(
    services: BrokerServices, request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    invalid = error_of(component.entity_type for component in request.components)
    if invalid is not None:
        return DescribeClientQuotasResponse(error_code=invalid.error, error_message=invalid.message, entries=None)
    return DescribeClientQuotasResponse(error_message="", entries=())


def error_of(entity_types: Iterable[str]) -> ApiError | None:
    """Return why a filter with these components is invalid; None if it is valid. Pure."""
    seen = set[str]()
    for entity_type in entity_types:
        if not entity_type:
            return ApiError(Errors.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if entity_type not in ENTITY_TYPES:
            return ApiError(Errors.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type}' not supported")
        if entity_type in seen:
            name = ENTITY_TYPES[entity_type]
            return ApiError(Errors.INVALID_REQUEST, f"Duplicate {name} filter component entity type")
        seen.add(entity_type)
    if "ip" in seen and len(seen) > 1:
        return ApiError(
            Errors.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or clientId "
            "filter component.",
        )
    return None


SERVES = Serves(request=DescribeClientQuotasRequest, versions=(0, 1), handle=handle)
