"""DescribeConfigs (key 32, versions 0 to 4): the configs of topics and of this broker, and where each value comes from.

A broker describes itself, the dynamic defaults of all brokers (an empty name), its loggers, and any topic. A resource
that is named twice is answered once. Versions: 1 sources and synonyms; 3 types and documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from understudy.brokers.apis.config_admin_manager import ResourceType, require_own_id
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.description import (
    ConfigSource,
    Described,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from understudy.brokers.metadata.topic_names import why_invalid
from understudy.foundation.cluster.errors import MALFORMED_REQUEST, ApiError, Errors
from understudy.foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

UNKNOWN_TYPE = 0

DESCRIBED_TYPES = frozenset(ResourceType) - {ResourceType.UNKNOWN}
"""Types of resources that can be described. A request that names a resource of another type is refused as a whole."""

NO_ERROR = ApiError(Errors.NONE, "")
MALFORMED = ApiError(Errors.INVALID_REQUEST, MALFORMED_REQUEST)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ConfigAdminManager")


async def handle(
    services: BrokerServices, request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse:
    if any(resource.resource_type not in DESCRIBED_TYPES for resource in request.resources):
        return DescribeConfigsResponse(results=tuple(_result(resource, MALFORMED) for resource in request.resources))
    results = []
    known: dict[tuple[int, str], tuple[Described, ...]] = {}
    for resource in dict.fromkeys(request.resources):
        # Describing a broker awaits nothing, and a request may name it many times: let other requests proceed.
        await asyncio.sleep(0)
        whose = (resource.resource_type, resource.resource_name)
        try:
            if whose not in known:
                known[whose] = tuple(await _described(services, resource))
            results.append(_result(resource, NO_ERROR, tuple(described(known[whose], resource, request))))
        except ApiError as refused:
            results.append(_result(resource, refused))
    return DescribeConfigsResponse(results=tuple(results))


async def _described(services: BrokerServices, resource: DescribeConfigsResource) -> Iterable[Described]:
    """Return the config of `resource`.

    Raises:
        ApiError: there is no such resource, or it is not described here.
    """
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            return await _of_topic(services, name)
        case ResourceType.BROKER if name == "":
            return describe_broker_defaults(services.dynamic)
        case ResourceType.BROKER:
            require_own_id(
                services, name, "Broker", "Unexpected broker id, expected {} or empty string, but received {}"
            )
            return describe_broker(services.dynamic)
        case ResourceType.BROKER_LOGGER if name == "":
            raise ApiError(Errors.INVALID_REQUEST, "Broker id must not be empty")
        case ResourceType.BROKER_LOGGER:
            require_own_id(services, name, "Broker", "Unexpected broker id, expected {} but received {}")
            levels = services.loggers.describe().items()
            return [
                Described(logger, level, ConfigSource.DYNAMIC_BROKER_LOGGER, (), None, doc="")
                for logger, level in levels
            ]
        case ResourceType.CLIENT_METRICS if name == "":
            raise ApiError(Errors.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        case ResourceType.CLIENT_METRICS:
            raise ApiError(Errors.INVALID_REQUEST, "Config type client-metrics is only supported on KRaft clusters")
        case other:
            raise AssertionError(f"resources of type {other} have been refused")


async def _of_topic(services: BrokerServices, topic: str) -> Iterable[Described]:
    invalid = why_invalid(topic)
    if invalid is not None:
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, invalid)
    if topic not in services.metadata.snapshot.topics:
        raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "")
    try:
        stored = (await services.zk().configs.read("topics", topic)).config
    except (SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure)) from failure
    try:
        return tuple(describe_topic(stored, services.dynamic))
    except ConfigError as unreadable:  # it was written by hand
        log.error("config of a topic cannot be read", topic=topic, why=str(unreadable))
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, str(unreadable)) from unreadable


def _result(
    resource: DescribeConfigsResource, error: ApiError, configs: tuple[DescribeConfigsResourceResult, ...] = ()
) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.error,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )


def described(
    configs: Iterable[Described], resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> Iterable[DescribeConfigsResourceResult]:
    """Yield the requested configs, with the requested details. As in Kafka `is_default` stays False: version 0 does not
    show where a value comes from."""
    wanted = frozenset(resource.configuration_keys or ())
    for config in configs:
        if wanted and config.name not in wanted:
            continue
        yield DescribeConfigsResourceResult(
            name=config.name,
            value=config.value,
            read_only=config.read_only,
            config_source=config.source,
            is_sensitive=config.is_sensitive,
            synonyms=tuple(
                DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in config.synonyms
            )
            if request.include_synonyms
            else (),
            config_type=UNKNOWN_TYPE if config.type is None else config.type.value,
            # The documentation of a logger is always empty; Kafka never sets it.
            documentation=config.doc if request.include_documentation or config.doc == "" else None,
        )


SERVES = Serves(request=DescribeConfigsRequest, versions=(0, 4), handle=handle)
