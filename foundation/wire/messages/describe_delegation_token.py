"""DescribeDelegationToken (key 41): delegation tokens by their owners (KIP-48).

Versions: 2 flexible; 3 the requester of a token (KIP-373).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int16, int32, int64, since


class DescribeDelegationTokenRequest(Message, frozen=True, kw_only=True):
    owners: tuple[DescribeDelegationTokenOwner, ...] | None = None
    """None: every owner."""


class DescribeDelegationTokenOwner(Message, frozen=True, kw_only=True):
    principal_type: str = ""
    principal_name: str = ""


class DescribeDelegationTokenResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: int32 = 0


class DescribedDelegationToken(Message, frozen=True, kw_only=True):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp: int64 = 0
    """Milliseconds since 1970, as the two below."""
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


class DescribedDelegationTokenRenewer(Message, frozen=True, kw_only=True):
    principal_type: str = ""
    principal_name: str = ""
