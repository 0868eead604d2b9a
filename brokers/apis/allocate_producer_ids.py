"""AllocateProducerIds (key 67, version 0): a broker requests a block of producer ids from the controller (KIP-730).

Only brokers send it: Kafka requires CLUSTER_ACTION. The controller's event queue allocates the block; a broker that is
not the controller answers NOT_CONTROLLER. The ids of a lost response are never used.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(
    services: BrokerServices, request: AllocateProducerIdsRequest, context: RequestContext
) -> AllocateProducerIdsResponse:
    if not services.controller.is_active:
        return AllocateProducerIdsResponse(error_code=Errors.NOT_CONTROLLER)
    allocated = await services.controller.allocate_producer_ids(BrokerId(request.broker_id), request.broker_epoch)
    if isinstance(allocated, ApiError):
        return AllocateProducerIdsResponse(error_code=allocated.error)
    return AllocateProducerIdsResponse(producer_id_start=allocated.first, producer_id_len=allocated.size)


SERVES = Serves(request=AllocateProducerIdsRequest, versions=(0, 0), handle=handle, recorded=True)
