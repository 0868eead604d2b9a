"""FindCoordinator (key 10, versions 0 to 6): the coordinator of a group or of a transactional id (CO-3).

Any broker answers from its metadata cache: the leader of the partition that stores the key, on the listener of the
request. A missing `__consumer_offsets` is created even without `auto.create.topics.enable` (TC-10), and clients send
the request again. Since version 4 a request may have many keys; their missing topic is created once.

No broker of ours coordinates transactions. Without `__transaction_state`, which exists only if Kafka's brokers do, a
transactional id is refused by an error that ends the client at once, with a sentence that says why. librdkafka, which
sends version 2, ends on TRANSACTIONAL_ID_AUTHORIZATION_FAILED alone; with that error Java, which sends version 4 and
later, would not show the sentence. Share groups have no coordinator in ZooKeeper mode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from understudy.brokers.apis import auto_creation
from understudy.brokers.apis.no_transactions import NO_TRANSACTIONS
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.coordinator.coordinators import TOPICS, CoordinatorType, partition_for
from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
from understudy.brokers.metadata.topic_names import TRANSACTION_STATE_TOPIC
from understudy.foundation.cluster.errors import MALFORMED_REQUEST, ApiError, Errors
from understudy.foundation.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaApis")

FIRST_VERSION_WITH_MANY_KEYS = 4
FIRST_VERSION_WITH_SHARE_GROUPS = 6
VERSION_OF_LIBRDKAFKA = 2
"""Version that every release of librdkafka sends."""
KEYS_WITHOUT_PAUSE = 100
"""Number of keys of one request after which other requests may proceed: a key may be as long as a string can be."""


class CoordinatorNode(NamedTuple):
    """A broker's id and its address for clients."""

    id: int
    host: str
    port: int


NO_NODE = CoordinatorNode(id=-1, host="", port=-1)
NOT_AVAILABLE = ApiError(Errors.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
UNKNOWN_TYPE = ApiError(Errors.INVALID_REQUEST, MALFORMED_REQUEST)
TOO_OLD_FOR_SHARE_GROUPS = ApiError(Errors.INVALID_REQUEST, MALFORMED_REQUEST)
WITHOUT_MESSAGE = (NOT_AVAILABLE, TOO_OLD_FOR_SHARE_GROUPS)
"""Errors of one of many keys that Kafka sends without their message."""


async def handle(
    services: BrokerServices, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse:
    many = context.api_version >= FIRST_VERSION_WITH_MANY_KEYS
    keys = request.coordinator_keys if many else (request.key,)
    topic = topic_of(request.key_type, context.api_version)
    if isinstance(topic, ApiError):
        found: Sequence[CoordinatorNode | ApiError] = [topic for _ in keys]
    elif topic == TRANSACTION_STATE_TOPIC and topic not in services.metadata.snapshot.topics:
        log.info("refused a transactional client", peer=context.peer, client_id=context.client_id, why=NO_TRANSACTIONS)
        found = [no_transactions(context.api_version) for _ in keys]
    else:
        found = await _coordinators(services, topic, keys, context.listener)
    if many:
        return FindCoordinatorResponse(
            coordinators=tuple(_of_many(key, each) for key, each in zip(keys, found, strict=True))
        )
    return _alone(found[0])


def topic_of(key_type: int, version: int) -> str | ApiError:
    """Return the topic whose leaders coordinate keys of this type, or the error."""
    if key_type not in tuple(CoordinatorType):
        return UNKNOWN_TYPE
    kind = CoordinatorType(key_type)
    if kind is CoordinatorType.SHARE and version < FIRST_VERSION_WITH_SHARE_GROUPS:
        return TOO_OLD_FOR_SHARE_GROUPS
    return TOPICS.get(kind, NOT_AVAILABLE)


def no_transactions(version: int) -> ApiError:
    """Return the error that ends a transactional client which sends the request in this version. Pure."""
    if version == VERSION_OF_LIBRDKAFKA:
        return ApiError(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
    return ApiError(Errors.UNSUPPORTED_VERSION, NO_TRANSACTIONS)


def coordinator(snapshot: MetadataSnapshot, topic: str, partition: int, listener: str) -> CoordinatorNode | None:
    """Return the leader of the partition with its address on `listener`; None without a live leader."""
    state = snapshot.partition(topic, partition)
    at = None if state is None else snapshot.endpoint(state.leader, listener)
    return None if state is None or at is None else CoordinatorNode(state.leader, at.host, at.port)


async def _coordinators(
    services: BrokerServices, topic: str, keys: Sequence[str], listener: str
) -> list[CoordinatorNode | ApiError]:
    snapshot = services.metadata.snapshot
    if keys and topic not in snapshot.topics:
        await auto_creation.create(services, (topic,))
        return [NOT_AVAILABLE for _ in keys]
    partitions = services.coordinator_partitions[topic]
    found: list[CoordinatorNode | ApiError] = []
    for number, key in enumerate(keys, start=1):
        found.append(coordinator(snapshot, topic, partition_for(key, partitions), listener) or NOT_AVAILABLE)
        if number % KEYS_WITHOUT_PAUSE == 0:
            await asyncio.sleep(0)
    return found


def _alone(found: CoordinatorNode | ApiError) -> FindCoordinatorResponse:
    """Return the response for a single key; without an error Kafka's message is `NONE`."""
    node, refused = (NO_NODE, found) if isinstance(found, ApiError) else (found, ApiError(Errors.NONE, "NONE"))
    return FindCoordinatorResponse(
        error_code=refused.error, error_message=refused.message, node_id=node.id, host=node.host, port=node.port
    )


def _of_many(key: str, found: CoordinatorNode | ApiError) -> Coordinator:
    """Return the response for one of many keys."""
    node, refused = (NO_NODE, found) if isinstance(found, ApiError) else (found, ApiError(Errors.NONE, ""))
    message = "" if refused in WITHOUT_MESSAGE else refused.message
    return Coordinator(
        key=key, node_id=node.id, host=node.host, port=node.port, error_code=refused.error, error_message=message
    )


SERVES = Serves(request=FindCoordinatorRequest, versions=(0, 6), handle=handle)
