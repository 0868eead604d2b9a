"""StopReplica (key 5, versions 0 to 4): the controller ends the hosting of replicas, with or without their data.

An older broker or controller epoch refuses the whole, with no partition named; a leader epoch below ours refuses its
partition, unless it is the one that deletions carry (BK-14). The leader epoch came with version 3 (KIP-570).
"""

from __future__ import annotations

from brokers.apis.control_request_log import ControlRequestLog
from brokers.apis.fencing import refusal
from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from foundation.eventlog.records import StopReplicaApplied
from foundation.wire.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse


async def handle(services: BrokerServices, request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    told = ControlRequestLog(services, request, context)
    refused = refusal(services, request)
    if refused is not None:
        told.ignored(refused)
        return StopReplicaResponse(error_code=refused)
    step = services.replicas.stop_replicas(request)
    told.stop_replica_received(len(step.errors))
    told.stop_replica_applied(step)
    services.events.append(
        StopReplicaApplied(
            controller_id=request.controller_id,
            request_controller_epoch=request.controller_epoch,
            request_broker_epoch=request.broker_epoch,
            partitions=tuple(
                (*topic_partition, leader_epoch, delete) for topic_partition, leader_epoch, delete in step.accepted
            ),
        )
    )
    errors = (
        StopReplicaPartitionError(topic_name=topic, partition_index=partition, error_code=error)
        for (topic, partition), error in step.errors.items()
    )
    return StopReplicaResponse(partition_errors=tuple(errors))


SERVES = Serves(request=StopReplicaRequest, versions=(0, 4), handle=handle, recorded=True, changes_our_view=True)
