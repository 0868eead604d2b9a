"""AlterPartition (key 56, versions 0 to 3): a leader proposes a new ISR to the controller (KIP-497).

The controller answers it as one of its events. A broker that is not controller answers NOT_CONTROLLER at once, without
topics (IS-7).
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


async def handle(
    services: BrokerServices, request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse:
    if not services.controller.is_active:
        return AlterPartitionResponse(error_code=Errors.NOT_CONTROLLER)
    return await services.controller.alter_partition(request, context.api_version)


SERVES = Serves(request=AlterPartitionRequest, versions=(0, 3), handle=handle, recorded=True)
