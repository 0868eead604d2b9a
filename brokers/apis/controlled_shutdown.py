"""ControlledShutdown (key 7, versions 0 to 3): a broker that shuts down requests that the controller move its
leaderships.

The response names the partitions that the broker still leads, or an error: STALE_CONTROLLER_EPOCH from a broker that is
not the controller (CS-5).
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)


async def handle(
    services: BrokerServices, request: ControlledShutdownRequest, context: RequestContext
) -> ControlledShutdownResponse:
    error, remaining = await services.controller.controlled_shutdown(BrokerId(request.broker_id), request.broker_epoch)
    partitions = (RemainingPartition(topic_name=topic, partition_index=partition) for topic, partition in remaining)
    return ControlledShutdownResponse(error_code=error, remaining_partitions=tuple(partitions))


SERVES = Serves(request=ControlledShutdownRequest, versions=(0, 3), handle=handle, recorded=True)
