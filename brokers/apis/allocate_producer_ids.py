"""AllocateProducerIds (key 67, version 0): a broker asks the controller for a block of producer ids (KIP-730).

Among brokers only: Kafka asks for CLUSTER_ACTION. Answered by the controller's event queue; a broker that is not
controller says NOT_CONTROLLER at once. Ids whose answer gets lost stay unused.
"""

from __future__ import annotations

from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId
from foundation.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse


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
