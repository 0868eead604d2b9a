"""SyncGroup (key 14, versions 0 to 5): a member waits for its assignment; the leader brings all assignments.

Mirrors `KafkaApis.handleSyncGroupRequest`.
"""

from __future__ import annotations

from typing import Final

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.apis.static_members import is_refused
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL: Final = 5


async def handle(services: BrokerServices, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    if is_refused(services, request.group_instance_id):
        return SyncGroupResponse(error_code=Errors.UNSUPPORTED_VERSION)
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and not names_protocol:
        return SyncGroupResponse(error_code=Errors.INCONSISTENT_GROUP_PROTOCOL)
    result = await services.groups.sync_group(
        request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment={each.member_id: each.assignment for each in request.assignments},
    )
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


SERVES = Serves(request=SyncGroupRequest, versions=(0, 5), handle=handle)
