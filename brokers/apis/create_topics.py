"""CreateTopics (key 19, versions 0 to 7): creates topics, on the controller's broker only.

The topics are independent: one that cannot be created does not affect the others (TC-3, TC-4). The handler writes the
topic's config and its znode; the controller is notified by its watch. The response is sent when this broker's metadata
cache has a leader for every partition; REQUEST_TIMED_OUT says that the topic may still appear (TC-7). Versions: 1
`validate_only` and messages; 4 defaults by −1; 5 returns the resulting config; 7 the topic id.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.apis.topic_answers import has_leaders, require_storable, topic_configs_described, unstorable
from understudy.brokers.config.config_def import ConfigError, ConfigValue
from understudy.brokers.config.description import topic_defaults
from understudy.brokers.config.topic_config import validate_topic_config
from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
from understudy.brokers.metadata.topic_names import CLUSTER_METADATA_TOPIC, has_collision_characters, why_invalid
from understudy.brokers.metadata.topic_validation import validate_topic_create
from understudy.controller.replica_placement import IncompleteRacks, assign_replicas_to_brokers
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicId, random_topic_id
from understudy.foundation.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure

DEFAULT = -1
"""Number in a request that stands for `num.partitions` or `default.replication.factor`."""

TOPICS_WITHOUT_PAUSE = 100
"""Number of topics of one request after which other requests may proceed: the refusal of a topic awaits nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """The response for a topic that was written; with `validate_only` its id is the zero id."""

    topic_id: TopicId
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


async def handle(
    services: BrokerServices, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    if not services.controller.is_active:
        refused = CreatableTopicResult(error_code=Errors.NOT_CONTROLLER, error_message="", configs=())
        return CreateTopicsResponse(topics=tuple(replace(refused, name=topic.name) for topic in request.topics))
    prohibited = prohibited_names(request.topics)
    outcomes: dict[str, CreatedTopic | ApiError] = {}
    for number, topic in enumerate(request.topics, start=1):
        if topic.name in prohibited:
            outcomes[topic.name] = prohibited[topic.name]
        else:
            outcomes[topic.name] = await create(services, topic, validate_only=request.validate_only)
        if number % TOPICS_WITHOUT_PAUSE == 0:
            await asyncio.sleep(0)
    created = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, CreatedTopic)}
    if created and not request.validate_only:
        await services.metadata.wait_until(
            lambda snapshot: all(has_leaders(snapshot, name, made.partitions) for name, made in created.items()),
            timeout_ms=request.timeout_ms,
        )
        for name, made in created.items():
            if request.timeout_ms <= 0 or not has_leaders(services.metadata.snapshot, name, made.partitions):
                outcomes[name] = ApiError(Errors.REQUEST_TIMED_OUT, "")
    topic_ids = {name: made.topic_id for name, made in created.items()}
    # A topic that is named twice is refused twice.
    names = (topic.name for topic in request.topics)
    return CreateTopicsResponse(topics=tuple(_result(name, outcomes[name], topic_ids, services) for name in names))


def prohibited_names(topics: Sequence[CreatableTopic]) -> dict[str, ApiError]:
    """Return the errors of names that may not be created, or are in the request twice (TC-3)."""
    prohibited: dict[str, ApiError] = {}
    for name, count in Counter(topic.name for topic in topics).items():
        if name == CLUSTER_METADATA_TOPIC:
            prohibited[name] = ApiError(
                Errors.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
            )
        elif count > 1:
            prohibited[name] = ApiError(Errors.INVALID_REQUEST, "Found multiple entries for this topic.")
    return prohibited


def replicas_for(
    services: BrokerServices, snapshot: MetadataSnapshot, topic: CreatableTopic
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the requested replicas, or place them on the live brokers of the metadata cache (TC-4).

    Raises:
        ApiError: the request contradicts itself, or there are not enough brokers.
    """
    if any(config.value is None for config in topic.configs):
        names = ",".join(config.name for config in topic.configs if config.value is None)
        raise ApiError(Errors.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
    if topic.assignments:
        if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
            raise ApiError(
                Errors.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time.",
            )
        return {each.partition_index: tuple(map(BrokerId, each.broker_ids)) for each in topic.assignments}
    rack_by_broker = {BrokerId(broker): snapshot.live_brokers[broker].rack for broker in sorted(snapshot.live_brokers)}
    partitions = services.config.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    replication_factor = topic.replication_factor
    if replication_factor == DEFAULT:
        replication_factor = services.config.default_replication_factor
    require_storable(partitions)
    try:
        return assign_replicas_to_brokers(rack_by_broker, partitions, replication_factor, services.random)
    except IncompleteRacks as incomplete:
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, str(incomplete)) from incomplete


def validated(
    topic: CreatableTopic,
    assignment: Mapping[int, tuple[BrokerId, ...]],
    existing: Sequence[str],
    defaults: Mapping[str, ConfigValue],
) -> dict[str, str]:
    """Check name, collisions, assignment and config (TC-4, TC-5); return the config as it is stored. Pure.

    Args:
        existing: the topics in ZooKeeper; for a name without `.` and `_`, the topic of the same name is enough.
        defaults: the values of configs that the topic does not set.

    Raises:
        ApiError: the first check that fails.
    """
    validate_topic_create(topic.name, assignment, existing)
    try:
        return validate_topic_config(((config.name, config.value or "") for config in topic.configs), defaults)
    except ConfigError as error:
        raise ApiError(Errors.INVALID_CONFIG, str(error)) from error


async def create(services: BrokerServices, topic: CreatableTopic, *, validate_only: bool) -> CreatedTopic | ApiError:
    """Check one topic and, unless `validate_only`, write it; return the topic or the error."""
    topic_id = NO_TOPIC_ID
    try:
        snapshot = services.metadata.snapshot
        if topic.name in snapshot.topics:
            raise ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        assignment = replicas_for(services, snapshot, topic)
        config = validated(topic, assignment, await _existing(services, topic.name), topic_defaults(services.config))
        if not validate_only:
            topic_id = await _write(services, topic.name, assignment, config)
    except ApiError as error:
        return error
    except ControllerMoved as moved:
        return ApiError(Errors.STALE_CONTROLLER_EPOCH, str(moved))
    except (SessionLost, ZooKeeperFailure) as failure:
        return ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure))
    return CreatedTopic(
        topic_id=topic_id, partitions=len(assignment), replication_factor=len(assignment[0]), config=config
    )


async def _existing(services: BrokerServices, name: str) -> Sequence[str]:
    """Return the topics in ZooKeeper that `validated` needs; listing all of them for each topic would be quadratic.

    None for an invalid name, which must not become part of a path.

    Raises:
        ApiError: the topic is marked for deletion.
    """
    if why_invalid(name) is not None:
        return ()
    if await services.zk().topic_deletions.is_marked(name):
        raise ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if has_collision_characters(name):
        return await services.zk().topics.names()
    return (name,) if await services.zk().topics.exists(name) else ()


async def _write(
    services: BrokerServices, topic: str, assignment: Mapping[int, tuple[BrokerId, ...]], config: Mapping[str, str]
) -> TopicId:
    """Write the config, then the topic, and return its id (TC-6). As in Kafka not atomically: a crash in between leaves
    a config without a topic.

    The id is the zero id if `inter.broker.protocol.version` has no topic ids.
    """
    zk = services.zk()
    topic_id = random_topic_id(services.random) if services.config.metadata_version.is_topic_ids_supported else None
    await zk.configs.write("topics", topic, config)
    replicas = {partition: ReplicaAssignment(brokers) for partition, brokers in assignment.items()}
    failure = await zk.topics.create(topic, topic_id, replicas)
    if failure is Failure.NODE_EXISTS:
        raise ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    if failure is Failure.TOO_LARGE:
        raise unstorable(len(assignment))
    if failure is not None:
        raise ApiError(
            Errors.UNKNOWN_SERVER_ERROR,
            f"Topic '{topic}' could not be written to ZooKeeper: {failure.value}; it may exist all the same, "
            "describe it before trying again.",
        )
    return topic_id or NO_TOPIC_ID


def _result(
    name: str, outcome: CreatedTopic | ApiError, topic_ids: Mapping[str, TopicId], services: BrokerServices
) -> CreatableTopicResult:
    topic_id = topic_ids.get(name, NO_TOPIC_ID)
    if isinstance(outcome, ApiError):
        return CreatableTopicResult(
            name=name, topic_id=topic_id, error_code=outcome.error, error_message=outcome.message or None, configs=()
        )
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        num_partitions=outcome.partitions,
        replication_factor=outcome.replication_factor,
        configs=topic_configs_described(outcome.config, services.dynamic),
    )


SERVES = Serves(request=CreateTopicsRequest, versions=(0, 7), handle=handle, recorded=True)
