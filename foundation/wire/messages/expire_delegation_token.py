"""ExpireDelegationToken (key 40): a delegation token is to expire earlier (KIP-48).

Version 2 is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class ExpireDelegationTokenRequest(Message, frozen=True, kw_only=True):
    hmac: bytes = b""
    expiry_time_period_ms: int64 = 0
    """Negative: it expires at once."""


class ExpireDelegationTokenResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    """Milliseconds since 1970."""
    throttle_time_ms: int32 = 0
