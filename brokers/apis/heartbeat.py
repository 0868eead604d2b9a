"""Heartbeat (key 12, versions 0 to 4): a member renews its session. Mirrors `KafkaApis.handleHeartbeatRequest`."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.apis.static_members import is_refused
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


async def handle(services: BrokerServices, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    if is_refused(services, request.group_instance_id):
        return HeartbeatResponse(error_code=Errors.UNSUPPORTED_VERSION)
    error = services.groups.heartbeat(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id
    )
    return HeartbeatResponse(error_code=error)


SERVES = Serves(request=HeartbeatRequest, versions=(0, 4), handle=handle)
