"""LeaveGroup (key 13, versions 0 to 5): members leave their group, or an operator removes them (KIP-345).

Mirrors `KafkaApis.handleLeaveGroupRequest`. Up to version 2 there is one member, whose error is the request's.
"""

from __future__ import annotations

from typing import Final

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.coordinator.group.group_coordinator import LeavingMember
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

FIRST_VERSION_WITH_MEMBERS: Final = 3


async def handle(services: BrokerServices, request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    if context.api_version < FIRST_VERSION_WITH_MEMBERS:
        error, errors = services.groups.leave_group(request.group_id, (LeavingMember(request.member_id),))
        return LeaveGroupResponse(error_code=next((each for each in errors if each is not Errors.NONE), error))
    leaving = [LeavingMember(each.member_id, each.group_instance_id, each.reason) for each in request.members]
    error, errors = services.groups.leave_group(request.group_id, leaving)
    return LeaveGroupResponse(
        error_code=error,
        members=tuple(
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=each)
            for member, each in zip(request.members, errors, strict=bool(errors))
        ),
    )


SERVES = Serves(request=LeaveGroupRequest, versions=(0, 5), handle=handle)
