"""StopReplica (key 5, versions 0 to 4): the controller stops replicas of this broker, and may have them deleted.

A stale broker or controller epoch refuses the whole request, and the answer names no partition. A stale leader epoch
refuses its partition, unless it is the one that deletions carry (BK-14). Leader epochs came with version 3 (KIP-570).
"""

from __future__ import annotations

from understudy.brokers.apis.control_request_log import ControlRequestLog
from understudy.brokers.apis.fencing import accept_controller_epoch, epoch_error
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.eventlog.records import StopReplicaApplied
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)


async def handle(services: BrokerServices, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    async with services.replicas.state_change_lock:
        return _apply(services, request, context)


def _apply(services: BrokerServices, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    lines = ControlRequestLog(services, request, context)
    error = epoch_error(services, request)
    if error is not Errors.NONE:
        lines.ignored(error)
        return StopReplicaResponse(error_code=error)
    accept_controller_epoch(services, request.controller_epoch)
    step = services.replicas.stop_replicas(request)
    lines.stop_replica_received(len(step.errors))
    lines.stop_replica_applied(step)
    services.events.append(
        StopReplicaApplied(
            controller_id=request.controller_id,
            request_controller_epoch=request.controller_epoch,
            request_broker_epoch=request.broker_epoch,
            partitions=tuple(
                (*stopped.topic_partition, stopped.leader_epoch, stopped.delete) for stopped in step.accepted
            ),
        )
    )
    for stopped in step.accepted:
        if stopped.delete and stopped.topic_partition.topic == GROUP_METADATA_TOPIC:
            # A reassignment that takes a replica away sends no LeaderAndIsr to its broker (BK-16).
            epoch = stopped.leader_epoch if stopped.leader_epoch >= 0 else None
            services.groups.resigned(stopped.topic_partition.partition, epoch)
    errors = (
        StopReplicaPartitionError(topic_name=topic, partition_index=partition, error_code=code)
        for (topic, partition), code in step.errors.items()
    )
    return StopReplicaResponse(partition_errors=tuple(errors))


SERVES = Serves(request=StopReplicaRequest, versions=(0, 4), handle=handle, recorded=True, fails_broker=True)
