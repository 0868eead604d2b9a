"""DescribeConfigs (key 32): the configuration of topics and brokers, with the source of each value.

Versions: 1 synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, since, until


class DescribeConfigsRequest(Message, frozen=True, kw_only=True):
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Annotated[bool, since(1)] = False
    include_documentation: Annotated[bool, since(3)] = False


class DescribeConfigsResource(Message, frozen=True, kw_only=True):
    resource_type: int8 = 0
    """2 topic, 4 broker, 8 broker logger."""
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = None
    """None: all keys."""


class DescribeConfigsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


class DescribeConfigsResult(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    error_message: str | None = None
    resource_type: int8 = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


class DescribeConfigsResourceResult(Message, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    is_default: Annotated[bool, until(0)] = False
    config_source: Annotated[int8, since(1), ignorable] = -1
    """1 topic, 2 broker, 3 cluster default of brokers, 4 static, 5 default, 6 broker logger."""
    is_sensitive: bool = False
    synonyms: Annotated[tuple[DescribeConfigsSynonym, ...], since(1), ignorable] = ()
    """All sources of the value, the one in force first."""
    config_type: Annotated[int8, since(3), ignorable] = 0
    """0 unknown, 1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password."""
    documentation: Annotated[str | None, since(3), ignorable] = None


class DescribeConfigsSynonym(Message, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None
    source: int8 = 0
