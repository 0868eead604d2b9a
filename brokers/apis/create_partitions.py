"""CreatePartitions (key 37, versions 0 to 3): adds partitions to topics, on the controller's broker only.

As with CreateTopics, the handler rewrites the topic's znode and waits for the metadata cache; the controller is
notified by its watch (TP-1, TP-2). The placement of new partitions starts at the first replica of partition 0, so that
they are spread like the existing ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.apis.topic_answers import has_leaders, require_storable, unstorable
from understudy.brokers.metadata.topic_names import why_invalid
from understudy.controller.replica_placement import IncompleteRacks, assign_replicas_to_brokers
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure
from understudy.foundation.zk.transactions import MAX_ROUNDS

Replicas = tuple[BrokerId, ...]


async def handle(
    services: BrokerServices, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    if not services.controller.is_active:
        names = dict.fromkeys(topic.name for topic in request.topics)
        refused = (CreatePartitionsTopicResult(name=name, error_code=Errors.NOT_CONTROLLER) for name in names)
        return CreatePartitionsResponse(results=tuple(refused))
    twice = {name for name, count in Counter(topic.name for topic in request.topics).items() if count > 1}
    outcomes: dict[str, int | ApiError] = {}
    for topic in request.topics:
        if topic.name in twice:
            outcomes[topic.name] = ApiError(Errors.INVALID_REQUEST, "Duplicate topic in request.")
        else:
            outcomes[topic.name] = await _add(services, topic, validate_only=request.validate_only)
    grown = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, int)}
    if grown and not request.validate_only:
        await services.metadata.wait_until(
            lambda snapshot: all(has_leaders(snapshot, topic, count) for topic, count in grown.items()),
            timeout_ms=request.timeout_ms,
        )
        for name, count in grown.items():
            if request.timeout_ms <= 0 or not has_leaders(services.metadata.snapshot, name, count):
                outcomes[name] = ApiError(Errors.REQUEST_TIMED_OUT, "")
    return CreatePartitionsResponse(results=tuple(_result(name, outcome) for name, outcome in outcomes.items()))


def new_partitions(
    topic: CreatePartitionsTopic,
    existing: Mapping[TopicPartition, ReplicaAssignment],
    brokers: Mapping[BrokerId, BrokerAndEpoch],
    services: BrokerServices,
) -> dict[int, Replicas]:
    """Return the replicas of the partitions to add.

    Raises:
        ApiError: the topic does not exist, is being reassigned, or cannot grow as requested.
    """
    name = topic.name
    if not existing:
        raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if any(assignment.is_being_reassigned for assignment in existing.values()):
        raise ApiError(
            Errors.REASSIGNMENT_IN_PROGRESS, f"A partition reassignment is in progress for the topic '{name}'."
        )
    increment = topic.count - len(existing)
    if increment < 0:
        raise ApiError(
            Errors.INVALID_PARTITIONS,
            f"Topic currently has {len(existing)} partitions, which is higher than the requested {topic.count}.",
        )
    if increment == 0:
        raise ApiError(Errors.INVALID_PARTITIONS, f"Topic already has {len(existing)} partitions.")
    model = existing.get(TopicPartition(name, 0))
    if model is None:
        raise ApiError(
            Errors.UNKNOWN_SERVER_ERROR,
            f"Unexpected existing replica assignment for topic '{name}', partition id 0 is missing.",
        )
    if topic.assignments is not None:
        return _manual(topic.assignments, increment, len(existing), model.replicas, brokers)
    require_storable(topic.count)
    candidates = sorted(brokers)
    start = next((index for index, broker in enumerate(candidates) if broker >= model.replicas[0]), 0)
    try:
        return assign_replicas_to_brokers(
            {broker: brokers[broker].broker.rack for broker in candidates},
            increment,
            len(model.replicas),
            services.random,
            fixed_start_index=start,
            start_partition_id=len(existing),
        )
    except IncompleteRacks as incomplete:
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, str(incomplete)) from incomplete


def _manual(
    assignments: Sequence[CreatePartitionsAssignment],
    increment: int,
    first: int,
    model: Replicas,
    brokers: Mapping[BrokerId, BrokerAndEpoch],
) -> dict[int, Replicas]:
    requested = [tuple(map(BrokerId, assignment.broker_ids)) for assignment in assignments]
    unknown = dict.fromkeys(broker for replicas in requested for broker in replicas if broker not in brokers)
    if unknown:
        raise ApiError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, unknown))}.",
        )
    if len(requested) != increment:
        raise ApiError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"Increasing the number of partitions by {increment} but {len(requested)} assignments provided.",
        )
    for partition, replicas in enumerate(requested, start=first):
        if not replicas:
            raise ApiError(
                Errors.INVALID_REPLICA_ASSIGNMENT, f"Cannot have replication factor of 0 for partition id {partition}."
            )
        if len(set(replicas)) < len(replicas):
            raise ApiError(
                Errors.INVALID_REPLICA_ASSIGNMENT,
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} "
                f"for partition id {partition}.",
            )
    odd = {
        partition: len(replicas)
        for partition, replicas in enumerate(requested, start=first)
        if len(replicas) != len(model)
    }
    if odd:
        raise ApiError(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"Inconsistent replication factor between partitions, partition 0 has {len(model)} while partitions "
            f"{list(odd)} have replication factors {list(odd.values())}, respectively.",
        )
    return dict(enumerate(requested, start=first))


async def _add(services: BrokerServices, topic: CreatePartitionsTopic, *, validate_only: bool) -> int | ApiError:
    """Check the request for one topic and, unless `validate_only`, write it; return the new number of partitions or the
    error."""
    try:
        if why_invalid(topic.name) is not None:  # no topic has such a name, and it must not become part of a path
            raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
        if await services.zk().topic_deletions.is_marked(topic.name):
            raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        await _check_and_write(services, topic, validate_only=validate_only)
    except ApiError as error:
        return error
    except (SessionLost, ZooKeeperFailure) as failure:
        return ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure))
    return topic.count


async def _check_and_write(services: BrokerServices, topic: CreatePartitionsTopic, *, validate_only: bool) -> None:
    """Check and write. After a conflict the topic is checked again; Kafka would overwrite a reassignment that has just
    begun (BUG-18).

    Raises:
        ApiError: the topic cannot grow.
        SessionLost, ZooKeeperFailure: see `KafkaZkClient`.
    """
    zk = services.zk()
    for _ in range(MAX_ROUNDS):
        found = (await zk.topics.assignments((topic.name,))).get(topic.name)
        existing = {} if found is None else found.partitions
        added = new_partitions(topic, existing, await zk.brokers.all(), services)
        if found is None or validate_only:
            return
        grown = dict(existing)
        grown |= {TopicPartition(topic.name, index): ReplicaAssignment(replicas) for index, replicas in added.items()}
        try:
            if await zk.topics.add_partitions(topic.name, found.topic_id, grown, over=existing):
                return
        except ZooKeeperFailure as failure:
            if failure.failure is not Failure.TOO_LARGE:
                raise
            raise unstorable(topic.count) from failure
    raise ApiError(Errors.UNKNOWN_SERVER_ERROR, f"The topic '{topic.name}' kept changing; nothing was added.")


def _result(name: str, outcome: int | ApiError) -> CreatePartitionsTopicResult:
    if isinstance(outcome, ApiError):
        return CreatePartitionsTopicResult(name=name, error_code=outcome.error, error_message=outcome.message or None)
    return CreatePartitionsTopicResult(name=name)


SERVES = Serves(request=CreatePartitionsRequest, versions=(0, 3), handle=handle, recorded=True)
