"""AlterClientQuotas (key 49): set or remove quotas of users, client ids and addresses (KIP-546).

Version 1 is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, float64, int16, int32


class AlterClientQuotasRequest(Message, frozen=True, kw_only=True):
    entries: tuple[AlterClientQuotasRequestEntryData, ...] = ()
    validate_only: bool = False


class AlterClientQuotasRequestEntryData(Message, frozen=True, kw_only=True):
    entity: tuple[AlterClientQuotasRequestEntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


class AlterClientQuotasRequestEntityData(Message, frozen=True, kw_only=True):
    entity_type: str = ""
    """`user`, `client-id` or `ip`."""
    entity_name: str | None = None
    """None: the default entity."""


class OpData(Message, frozen=True, kw_only=True):
    key: str = ""
    value: float64 = 0.0
    """Unused if the quota is removed."""
    remove: bool = False


class AlterClientQuotasResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = ()


class AlterClientQuotasResponseEntryData(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    error_message: str | None = None
    entity: tuple[AlterClientQuotasResponseEntityData, ...] = ()


class AlterClientQuotasResponseEntityData(Message, frozen=True, kw_only=True):
    entity_type: str = ""
    entity_name: str | None = None
