"""Reads and changes configurations; requests about one broker are sent to that broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from understudy.foundation.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from understudy.foundation.wire.messages.incremental_alter_configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from understudy.foundation.wire.schema import Message
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import error_of

R = TypeVar("R", bound=Message)

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
"""The types of resources."""
SET, DELETE = 0, 1
WAIT_MS = 30_000
"""How long a tool waits for a broker that is not in the metadata."""


async def responsible(
    cluster: KafkaCluster, resource_type: int, name: str, request: Message, response: type[R], *, call: str
) -> R:
    """Send a request to the broker that is responsible for a resource; raises as `KafkaCluster.ask`."""
    if resource_type in (BROKER, BROKER_LOGGER) and name:
        return await cluster.ask_broker(int(name), request, response, call=call, timeout_ms=WAIT_MS)
    return await cluster.ask(request, response, call=call)


async def read_configs(
    cluster: KafkaCluster, resource_type: int, name: str
) -> tuple[DescribeConfigsResourceResult, ...]:
    """Return all keys of a resource with their synonyms. Raises ToolError."""
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name)
    request = DescribeConfigsRequest(resources=(resource,), include_synonyms=True)
    response = await responsible(cluster, resource_type, name, request, DescribeConfigsResponse, call="describeConfigs")
    [result] = response.results
    if result.error_code:
        raise error_of(result.error_code, result.error_message)
    return result.configs


async def change_configs(cluster: KafkaCluster, changes: Mapping[tuple[int, str], Mapping[str, str | None]]) -> None:
    """Set and delete keys of resources, by type and name; None deletes a key. Raises ToolError at the first error."""
    for (resource_type, name), values in changes.items():
        resource = IncrementalAlterConfigsResource(
            resource_type=resource_type,
            resource_name=name,
            configs=tuple(
                IncrementalAlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
                for key, value in values.items()
            ),
        )
        response = await responsible(
            cluster,
            resource_type,
            name,
            IncrementalAlterConfigsRequest(resources=(resource,)),
            IncrementalAlterConfigsResponse,
            call="incrementalAlterConfigs",
        )
        for result in response.responses:
            if result.error_code:
                raise error_of(result.error_code, result.error_message)
