"""AlterConfigs (key 33, versions 0 to 2): replace the whole config of topics and brokers (CF-8).

Keys that a request leaves out are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.brokers.apis.config_admin_manager import Alteration, alter_configs
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(
    services: BrokerServices, request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(RequestedConfig(config.name, AlterConfigOperation.SET, config.value) for config in resource.configs),
            replaces=True,
        )
        for resource in request.resources
    ]
    outcomes = await alter_configs(services, alterations, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=answers(alterations, outcomes))


def answers(
    alterations: Sequence[Alteration], outcomes: Sequence[ApiError | None]
) -> tuple[AlterConfigsResourceResponse, ...]:
    """Return the response for each resource."""
    return tuple(
        AlterConfigsResourceResponse(
            error_code=Errors.NONE if error is None else error.error,
            error_message=None if error is None else error.message or None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )
        for alteration, error in zip(alterations, outcomes, strict=True)
    )


SERVES = Serves(request=AlterConfigsRequest, versions=(0, 2), handle=handle, recorded=True)
