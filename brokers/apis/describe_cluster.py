"""DescribeCluster (key 60, versions 0 and 1): cluster id, controller and live brokers, from the metadata cache.

Version 1 can ask for controllers instead of brokers (KIP-919); a cluster in ZooKeeper mode has none to show.
"""

from __future__ import annotations

from brokers.apis.authorized_operations import EVERY_CLUSTER_OPERATION, NOT_ASKED
from brokers.apis.serving import Serves
from brokers.services import BrokerServices, RequestContext
from foundation.cluster.errors import Errors
from foundation.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS = 1


async def handle(services: BrokerServices, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=Errors.INVALID_REQUEST,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
            endpoint_type=request.endpoint_type,
        )
    snapshot = services.metadata.snapshot
    reachable = ((broker, snapshot.endpoint(broker, context.listener)) for broker in sorted(snapshot.live_brokers))
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=-1 if snapshot.controller_id is None else snapshot.controller_id,
        brokers=tuple(
            DescribeClusterBroker(broker_id=broker, host=at.host, port=at.port, rack=snapshot.live_brokers[broker].rack)
            for broker, at in reachable
            if at is not None
        ),
        cluster_authorized_operations=(EVERY_CLUSTER_OPERATION if request.include_cluster_authorized_operations else NOT_ASKED),
    )


SERVES = Serves(request=DescribeClusterRequest, versions=(0, 1), handle=handle)
