"""LeaderAndIsr (key 4, versions 0 to 7): the controller makes this broker leader or follower of partitions.

A stale broker or controller epoch refuses the whole request (BK-1, BK-2), a stale leader epoch its partition (BK-6).
The answer names every partition: by topic name up to version 4, by topic id from version 5 on (BK-12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from understudy.brokers.apis.control_request_log import ControlRequestLog
from understudy.brokers.apis.fencing import accept_controller_epoch, epoch_error
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC
from understudy.brokers.replication.leader_and_isr_step import LeaderAndIsrStep, RequestedState, requested_states
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.eventlog.records import LeaderAndIsrApplied
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

FIRST_VERSION_BY_TOPIC_ID = 5


async def handle(
    services: BrokerServices, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse:
    async with services.replicas.state_change_lock:
        return await _apply(services, request, context)


async def _apply(
    services: BrokerServices, request: LeaderAndIsrRequest, context: RequestContext
) -> LeaderAndIsrResponse:
    lines = ControlRequestLog(services, request, context)
    requested = requested_states(request)
    error = epoch_error(services, request)
    if error is Errors.NONE:
        created = services.replicas.partitions_without_log(requested)
        if created:
            epochs = (services.replicas.controller_epoch, services.broker_epoch())
            await services.topic_configs.read(sorted({topic for topic, _ in created}))
            await services.replicas.create_logs(created)
            if epochs != (services.replicas.controller_epoch, services.broker_epoch()):
                error = epoch_error(services, request)
    if error is not Errors.NONE:
        lines.ignored(error)
        return response(requested, error, {each.topic_partition: error for each in requested}, context.api_version)
    accept_controller_epoch(services, request.controller_epoch)
    lines.leader_and_isr_received(requested)
    step = services.replicas.become_leader_or_follower(
        requested, is_alive=services.metadata.snapshot.is_alive, now_ms=services.clock.monotonic_ms()
    )
    services.events.append(
        LeaderAndIsrApplied(
            controller_id=request.controller_id,
            request_controller_epoch=request.controller_epoch,
            request_broker_epoch=request.broker_epoch,
            leaders=step.leaders,
            followers=step.followers,
            live_leaders=tuple(leader.broker_id for leader in request.live_leaders),
            leaderless=step.leaderless,
        )
    )
    lines.leader_and_isr_applied(requested, step)
    _move_groups(services, step)
    return response(requested, Errors.NONE, step.errors, context.api_version)


def _move_groups(services: BrokerServices, step: LeaderAndIsrStep) -> None:
    """Load the groups of partitions this broker leads now, and forget the groups of those it follows (BK-11, CO-4)."""
    for led in step.leaders:
        if led.topic == GROUP_METADATA_TOPIC:
            services.groups.elected(led.partition, led.leader_epoch)
    for followed in step.followers:
        if followed.topic == GROUP_METADATA_TOPIC:
            services.groups.resigned(followed.partition, followed.leader_epoch)


def response(
    requested: Iterable[RequestedState], error: Errors, errors: Mapping[TopicPartition, Errors], version: int
) -> LeaderAndIsrResponse:
    """The answer in `version`: `error` for the request, `errors` for its partitions."""
    if version < FIRST_VERSION_BY_TOPIC_ID:
        flat = (
            LeaderAndIsrPartitionError(topic_name=topic, partition_index=partition, error_code=code)
            for (topic, partition), code in errors.items()
        )
        return LeaderAndIsrResponse(error_code=error, partition_errors=tuple(flat))
    ids: dict[str, TopicId] = {topic: topic_id for (topic, _), topic_id, _ in requested}
    by_id = grouped(
        (ids[topic], LeaderAndIsrPartitionError(partition_index=partition, error_code=code))
        for (topic, partition), code in errors.items()
    )
    topics = (LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=codes) for topic_id, codes in by_id.items())
    return LeaderAndIsrResponse(error_code=error, topics=tuple(topics))


SERVES = Serves(request=LeaderAndIsrRequest, versions=(0, 7), handle=handle, recorded=True, fails_broker=True)
