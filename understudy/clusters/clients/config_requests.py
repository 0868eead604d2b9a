"""Admin requests about configs of topics, brokers and broker loggers; one about one broker is sent to that broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from understudy.clusters.clients.cluster_requests import ClusterRequests
from understudy.foundation.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
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

R = TypeVar("R", bound=Message)

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
"""The types of resources."""
SET, DELETE = 0, 1
DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5
"""Sources of a value. Mirrors `ConfigEntry.ConfigSource`."""


class ConfigRequests(ClusterRequests):
    """Reads and changes configs."""

    async def alter_config(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> None:
        """Set or delete keys in the config of a topic (2), a broker (4) or a broker's loggers (8).

        Requests about one broker's config or loggers are sent to that broker, others to the first that answers (TC-1).

        Args:
            changes: the value of each key; None deletes the key.

        Raises:
            ApiError: the change was refused.
            NoBrokerAnswers: no broker could be reached in time.
        """
        configs = tuple(
            IncrementalAlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
            for key, value in changes.items()
        )
        resource = IncrementalAlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        answer = await self._ask_about(resource_type, name, request, IncrementalAlterConfigsResponse)
        self._check_all(answer.responses)

    async def replace_config(self, resource_type: int, name: str, values: Mapping[str, str | None]) -> None:
        """Replace a whole config by AlterConfigs. Raises the errors of `alter_config`."""
        configs = tuple(AlterableConfig(name=key, value=value) for key, value in values.items())
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        request = AlterConfigsRequest(resources=(resource,))
        self._check_all((await self._ask_about(resource_type, name, request, AlterConfigsResponse)).responses)

    async def describe_config(self, resource_type: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
        """Return the config of a topic, a broker or a broker's loggers by key, with the synonyms of each value.

        Raises the errors of `alter_config`.
        """
        [config] = (await self.describe_configs(resource_type, (name,), include_synonyms=True)).values()
        return config

    async def describe_configs(
        self, resource_type: int, names: Iterable[str], *, include_synonyms: bool = False
    ) -> dict[str, dict[str, DescribeConfigsResourceResult]]:
        """Return configs by name and key, of topics or of one broker. Raises the errors of `alter_config`."""
        resources = tuple(DescribeConfigsResource(resource_type=resource_type, resource_name=name) for name in names)
        if not resources:
            return {}
        request = DescribeConfigsRequest(resources=resources, include_synonyms=include_synonyms)
        answer = await self._ask_about(resource_type, resources[0].resource_name, request, DescribeConfigsResponse)
        found = {}
        for result in answer.results:
            self._check(result.error_code, result.error_message, result.resource_name)
            found[result.resource_name] = {config.name: config for config in result.configs}
        return found

    async def _ask_about(self, resource_type: int, name: str, request: Message, response: type[R]) -> R:
        """Send a request to the broker that is responsible for a resource, and return the answer."""
        if resource_type in (BROKER, BROKER_LOGGER) and name:
            broker = int(name) if name.lstrip("+-").isdecimal() else name
            return await self.ask_broker(broker, request, response, timeout_ms=self._request_timeout_ms)
        return await self.ask_any(request, response)

    def _check_all(self, results: Iterable[AlterConfigsResourceResponse]) -> None:
        for result in results:
            self._check(result.error_code, result.error_message, result.resource_name)
