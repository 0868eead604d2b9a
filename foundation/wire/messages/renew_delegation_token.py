"""RenewDelegationToken (key 39): a delegation token is to expire later (KIP-48).

Version 2 is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class RenewDelegationTokenRequest(Message, frozen=True, kw_only=True):
    hmac: bytes = b""
    renew_period_ms: int64 = 0
    """-1: the time that the broker is configured with."""


class RenewDelegationTokenResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    """Milliseconds since 1970."""
    throttle_time_ms: int32 = 0
