"""The two fences that every control request passes first: the broker epoch, then the controller epoch (BK-1, BK-2)."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest

ANY_BROKER_EPOCH = -1

ControlRequest = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


def epoch_error(services: BrokerServices, request: ControlRequest) -> Errors:
    """The error that `request` as a whole is refused with, or NONE. Records a hit if one of its epochs is stale.

    A broker epoch above ours is accepted: the controller may read our new registration before we do.
    """
    what = f"{type(request).__name__.removesuffix('Request')} from {request.controller_id}"
    known = services.broker_epoch()
    stale = request.broker_epoch != ANY_BROKER_EPOCH and request.broker_epoch < known
    if stale and services.fences.record_hit(Fence.BROKER_EPOCH, what=what, offered=request.broker_epoch, known=known):
        return Errors.STALE_BROKER_EPOCH
    if request.broker_epoch > known and not services.fences.rules.newer_broker_epoch_is_accepted.holds_for(what):
        return Errors.STALE_BROKER_EPOCH
    known = services.replicas.controller_epoch
    stale = request.controller_epoch < known
    if stale and services.fences.record_hit(
        Fence.BROKER_CONTROLLER_EPOCH, what=what, offered=request.controller_epoch, known=known
    ):
        return Errors.STALE_CONTROLLER_EPOCH
    return Errors.NONE


def accept_controller_epoch(services: BrokerServices, controller_epoch: int) -> None:
    """Refuse requests of controllers with a lower epoch than this from now on."""
    services.replicas.controller_epoch = max(services.replicas.controller_epoch, controller_epoch)
    services.events.saw_controller_epoch(controller_epoch)
