"""JoinGroup (key 11, versions 0 to 9): a member joins its group, and waits until all others have joined.

Mirrors `KafkaApis.handleJoinGroupRequest` and `GroupCoordinatorAdapter.joinGroup`.
"""

from __future__ import annotations

from typing import Final

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.apis.static_members import is_refused
from understudy.brokers.coordinator.group.member_metadata import JoinGroupResult, JoiningMember, Protocols
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

FIRST_VERSION_WITH_REBALANCE_TIMEOUT: Final = 1
FIRST_VERSION_WITH_REQUIRED_ID: Final = 4
FIRST_VERSION_WITH_NULL_PROTOCOL: Final = 7
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT: Final = 9


async def handle(services: BrokerServices, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
    if is_refused(services, request.group_instance_id):
        return response(JoinGroupResult(request.member_id, Errors.UNSUPPORTED_VERSION), context.api_version)
    version = context.api_version
    has_timeout = version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
    joining = JoiningMember(
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        # As Java writes an address that was not looked up.
        client_host="/" + context.peer.rpartition(":")[0],
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=_protocols(request),
        reason=request.reason or "not provided",
        requires_known_id=version >= FIRST_VERSION_WITH_REQUIRED_ID,
        can_skip_assignment=version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT,
    )
    return response(await services.groups.join_group(request.group_id, joining), version)


def _protocols(request: JoinGroupRequest) -> Protocols:
    """Return the member's protocols; of two with one name the first counts."""
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    return tuple(protocols.items())


def response(result: JoinGroupResult, version: int) -> JoinGroupResponse:
    """Return the response in `version`."""
    no_protocol = None if version >= FIRST_VERSION_WITH_NULL_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=no_protocol if result.protocol_name is None else result.protocol_name,
        leader=result.leader_id or "",
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=result.members,
    )


SERVES = Serves(request=JoinGroupRequest, versions=(0, 9), handle=handle)
