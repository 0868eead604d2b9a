"""DescribeConfigs (key 32, versions 0 to 4): topics' and this broker's configuration, with where each value comes from.

Answered from the two tables and, for a topic, its znode. A broker describes itself only; the cluster-wide dynamic defaults (an
empty broker name) are empty, because nothing is configured dynamically yet. A resource asked for twice is answered once.
Versions: 1 sources and synonyms; 3 types and documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from brokers.apis.serving import Serves
from brokers.apis.topic_answers import DEFAULT_CONFIG, Effective, broker_config, topic_config
from brokers.config_types import shown
from brokers.services import BrokerServices, RequestContext
from brokers.topic_names import why_invalid
from foundation.cluster.errors import ApiError, Errors
from foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure

TOPIC, BROKER = 2, 4


async def handle(services: BrokerServices, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    results = []
    for resource in dict.fromkeys(request.resources):
        await asyncio.sleep(0)  # a broker's configuration waits for nothing by itself, and may be asked for in many ways
        try:
            found = await _effective(services, resource)
            configs = tuple(described(found, resource, request, version=context.api_version))
            error: ApiError | None = None
        except ApiError as refusal:
            configs, error = (), refusal
        results.append(
            DescribeConfigsResult(
                error_code=Errors.NONE if error is None else error.error,
                error_message=None if error is None else error.message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    return DescribeConfigsResponse(results=tuple(results))


async def _effective(services: BrokerServices, resource: DescribeConfigsResource) -> Iterable[Effective]:
    """The configuration of `resource`.

    Raises:
        ApiError: there is no such resource, or it is not described here.
    """
    if resource.resource_type == TOPIC:
        return await _of_topic(services, resource.resource_name)
    if resource.resource_type == BROKER:
        return _of_broker(services, resource.resource_name)
    raise ApiError(Errors.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")


async def _of_topic(services: BrokerServices, topic: str) -> Iterable[Effective]:
    invalid = why_invalid(topic)
    if invalid is not None:
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, invalid)
    if topic not in services.metadata.snapshot.topics:
        raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "")
    try:
        stored = await services.zk().entity_config("topics", topic)
    except (SessionLost, ZooKeeperFailure) as failure:
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure)) from failure
    return topic_config(stored, services.config)


def _of_broker(services: BrokerServices, name: str) -> Iterable[Effective]:
    if name == "":
        return ()
    if name != str(services.broker_id):
        raise ApiError(
            Errors.INVALID_REQUEST,
            f"Unexpected broker id, expected {services.broker_id} or empty string, but received {name}",
        )
    return broker_config(services.config)


def described(
    configs: Iterable[Effective], resource: DescribeConfigsResource, request: DescribeConfigsRequest, *, version: int
) -> Iterable[DescribeConfigsResourceResult]:
    """The configurations asked for, in as much detail as asked for."""
    for effective in configs:
        key, value, source = effective
        if resource.configuration_keys and key.name not in resource.configuration_keys:
            continue
        yield DescribeConfigsResourceResult(
            name=key.name,
            value=value,
            read_only=False,
            is_default=version == 0 and source == DEFAULT_CONFIG,
            config_source=source,
            synonyms=_synonyms(effective) if request.include_synonyms else (),
            config_type=key.type.value,
            documentation=key.doc if request.include_documentation else None,
        )


def _synonyms(effective: Effective) -> tuple[DescribeConfigsSynonym, ...]:
    """The value in force, and behind it the default it hides."""
    key, value, source = effective
    in_force = DescribeConfigsSynonym(name=key.name, value=value, source=source)
    if source == DEFAULT_CONFIG:
        return (in_force,)
    return (in_force, DescribeConfigsSynonym(name=key.name, value=shown(key.default), source=DEFAULT_CONFIG))


SERVES = Serves(request=DescribeConfigsRequest, versions=(0, 4), handle=handle)
