"""AlterConfigs (key 33, versions 0 to 2): replace the whole config of topics and brokers (CF-8).

Keys that a request leaves out are deleted.
"""

from __future__ import annotations

from understudy.brokers.apis.config_admin_manager import Alteration, alter_configs
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig
from understudy.foundation.wire.messages.alter_configs import (
    AlterConfigsRequest,
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
    responses = await alter_configs(services, alterations, validate_only=request.validate_only)
    return AlterConfigsResponse(responses=responses)


SERVES = Serves(request=AlterConfigsRequest, versions=(0, 2), handle=handle, recorded=True)
