"""DescribeCluster (key 60, versions 0 and 1): cluster id, controller and live brokers, from the metadata cache.

Version 1 can ask for controllers instead of brokers (KIP-919); a cluster in ZooKeeper mode has no controller endpoints.
"""

from __future__ import annotations

from understudy.brokers.apis.authorized_operations import EVERY_CLUSTER_OPERATION, NOT_ASKED
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2


async def handle(
    services: BrokerServices, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=Errors.MISMATCHED_ENDPOINT_TYPE,
            error_message=(
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
            ),
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=Errors.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    snapshot = services.metadata.snapshot
    reachable = ((broker, snapshot.endpoint(broker, context.listener)) for broker in sorted(snapshot.live_brokers))
    brokers = tuple(
        DescribeClusterBroker(broker_id=broker, host=at.host, port=at.port, rack=snapshot.live_brokers[broker].rack)
        for broker, at in reachable
        if at is not None
    )
    # The id of a controller that is not among the brokers would be of no use to clients.
    controllers = (broker.broker_id for broker in brokers if broker.broker_id == snapshot.controller_id)
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=next(controllers, -1),
        brokers=brokers,
        cluster_authorized_operations=(
            EVERY_CLUSTER_OPERATION if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


SERVES = Serves(request=DescribeClusterRequest, versions=(0, 1), handle=handle)
