"""AlterClientQuotas (key 49, versions 0 and 1): every quota is refused, because this broker would not enforce it."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)

NO_QUOTAS = ApiError(
    Errors.UNSUPPORTED_VERSION, "Understudy enforces no client quotas yet, so it stores none; leave the quota out"
)


async def handle(
    services: BrokerServices, request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=tuple(
            AlterClientQuotasResponseEntryData(
                error_code=NO_QUOTAS.error,
                error_message=NO_QUOTAS.message,
                entity=tuple(
                    AlterClientQuotasResponseEntityData(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ),
            )
            for entry in request.entries
        )
    )


SERVES = Serves(request=AlterClientQuotasRequest, versions=(0, 1), handle=handle)
