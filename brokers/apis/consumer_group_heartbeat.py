"""ConsumerGroupHeartbeat (key 68, version 0): UNSUPPORTED_VERSION, as in Kafka with its group coordinator of 3.9.

The protocol of KIP-848 needs the new coordinator, which ZooKeeper mode does not have.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


async def handle(
    services: BrokerServices, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=Errors.UNSUPPORTED_VERSION)


SERVES = Serves(request=ConsumerGroupHeartbeatRequest, versions=(0, 0), handle=handle)
