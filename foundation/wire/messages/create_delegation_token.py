"""CreateDelegationToken (key 38): create a delegation token (KIP-48).

Versions: 2 flexible; 3 an owner other than the requester (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int16, int32, int64, since


class CreateDelegationTokenRequest(Message, frozen=True, kw_only=True):
    owner_principal_type: Annotated[str | None, since(3)] = None
    """None: the requester is the owner."""
    owner_principal_name: Annotated[str | None, since(3)] = None
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: int64 = 0
    """-1: the lifetime that the broker is configured with."""


class CreatableRenewers(Message, frozen=True, kw_only=True):
    principal_type: str = ""
    principal_name: str = ""


class CreateDelegationTokenResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp_ms: int64 = 0
    """Milliseconds since 1970, as the two below."""
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int32 = 0
