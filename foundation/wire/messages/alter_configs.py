"""AlterConfigs (key 33): replace the whole configuration of topics and brokers. New clients send
IncrementalAlterConfigs.

Versions: 2 flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int8, int16, int32


class AlterConfigsRequest(Message, frozen=True, kw_only=True):
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: bool = False


class AlterConfigsResource(Message, frozen=True, kw_only=True):
    resource_type: int8 = 0
    """2 topic, 4 broker."""
    resource_name: str = ""
    """For a broker its id; empty for the defaults of all brokers."""
    configs: tuple[AlterableConfig, ...] = ()


class AlterableConfig(Message, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None


class AlterConfigsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()


class AlterConfigsResourceResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    error_message: str | None = None
    resource_type: int8 = 0
    resource_name: str = ""
