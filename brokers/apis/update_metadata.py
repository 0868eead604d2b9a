"""UpdateMetadata (key 6, versions 0 to 8): the controller sends brokers, leaders and ISRs for the metadata cache.

Clients are answered from that cache. The controller sends this request before LeaderAndIsr, because a broker follows
only a leader that its cache holds as alive (BK-9). A stale broker or controller epoch refuses the request; otherwise
the cache is replaced at once (MC-1). Groups lose their offsets of deleted partitions (CO-5).
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from understudy.brokers.apis.control_request_log import ControlRequestLog
from understudy.brokers.apis.fencing import accept_controller_epoch, epoch_error
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.eventlog.records import Leadership, MetadataUpdated
from understudy.foundation.operator_lines import some
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.metadata.ZkMetadataCache")


async def handle(
    services: BrokerServices, request: UpdateMetadataRequest, context: RequestContext
) -> UpdateMetadataResponse:
    lines = ControlRequestLog(services, request, context)
    error = epoch_error(services, request)
    if error is not Errors.NONE:
        lines.ignored(error)
        return UpdateMetadataResponse(error_code=error)
    accept_controller_epoch(services, request.controller_epoch)
    services.events.append(
        MetadataUpdated(
            controller_id=request.controller_id,
            request_controller_epoch=request.controller_epoch,
            request_broker_epoch=request.broker_epoch,
            live_brokers=tuple(sorted(broker.id for broker in request.live_brokers)),
            partitions=tuple(_leaderships(request)),
        )
    )
    deleted = services.metadata.update(request)
    lines.metadata_updated(request, deleted)
    if deleted:
        services.groups.administration.partitions_deleted(deleted)
    differing = services.metadata.snapshot.differing_listeners(services.broker_id)
    if differing:
        log.error(
            "listeners are not identical across brokers",
            broker=services.broker_id,
            count=len(differing),
            listeners=dict(some(differing.items())),
        )
    return UpdateMetadataResponse()


def _leaderships(request: UpdateMetadataRequest) -> Iterator[Leadership]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _leadership(topic.topic_name, state)
    for state in request.ungrouped_partition_states:
        yield _leadership(state.topic_name, state)


def _leadership(topic: str, state: UpdateMetadataPartitionState) -> Leadership:
    return Leadership(
        topic,
        state.partition_index,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.zk_version,
        state.controller_epoch,
    )


SERVES = Serves(request=UpdateMetadataRequest, versions=(0, 8), handle=handle, recorded=True, fails_broker=True)
