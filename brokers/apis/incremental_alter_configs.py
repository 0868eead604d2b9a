"""IncrementalAlterConfigs (key 44, versions 0 and 1): change single keys of the config of topics and brokers (CF-8)."""

from __future__ import annotations

from understudy.brokers.apis.config_admin_manager import Alteration, alter_configs
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.config.operations import RequestedConfig
from understudy.foundation.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    services: BrokerServices, request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            tuple(RequestedConfig(config.name, config.config_operation, config.value) for config in resource.configs),
            replaces=False,
        )
        for resource in request.resources
    ]
    responses = await alter_configs(services, alterations, validate_only=request.validate_only)
    return IncrementalAlterConfigsResponse(responses=responses)


SERVES = Serves(request=IncrementalAlterConfigsRequest, versions=(0, 1), handle=handle, recorded=True)
