"""IncrementalAlterConfigs (key 44): change single keys of the configuration of topics, brokers and loggers (KIP-339,
KIP-412).

Versions: 1 flexible. The response has the fields of AlterConfigs.
"""

from __future__ import annotations

from understudy.foundation.wire.messages.alter_configs import AlterConfigsResourceResponse
from understudy.foundation.wire.schema import Message, int8, int32


class IncrementalAlterConfigsRequest(Message, frozen=True, kw_only=True):
    resources: tuple[IncrementalAlterConfigsResource, ...] = ()
    validate_only: bool = False


class IncrementalAlterConfigsResource(Message, frozen=True, kw_only=True):
    resource_type: int8 = 0
    """2 topic, 4 broker, 8 broker logger."""
    resource_name: str = ""
    """For a broker its id; empty for the defaults of all brokers."""
    configs: tuple[IncrementalAlterableConfig, ...] = ()


class IncrementalAlterableConfig(Message, frozen=True, kw_only=True):
    name: str = ""
    config_operation: int8 = 0
    """0 set, 1 delete, 2 append to a list, 3 subtract from a list."""
    value: str | None = None


class IncrementalAlterConfigsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
