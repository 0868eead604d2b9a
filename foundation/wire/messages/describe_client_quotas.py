"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses that match a filter (KIP-546).

Version 1 is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, float64, int8, int16, int32


class DescribeClientQuotasRequest(Message, frozen=True, kw_only=True):
    components: tuple[ComponentData, ...] = ()
    strict: bool = False
    """Whether an entity with a further type does not match."""


class ComponentData(Message, frozen=True, kw_only=True):
    entity_type: str = ""
    match_type: int8 = 0
    """0 this name, 1 the default entity, 2 any name."""
    match: str | None = None


class DescribeClientQuotasResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    entries: tuple[EntryData, ...] | None = None


class EntryData(Message, frozen=True, kw_only=True):
    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


class EntityData(Message, frozen=True, kw_only=True):
    entity_type: str = ""
    entity_name: str | None = None


class ValueData(Message, frozen=True, kw_only=True):
    key: str = ""
    value: float64 = 0.0
