"""SaslAuthenticate (key 36): bytes of a SASL exchange.

Versions: 1 the lifetime of the session (KIP-368); 2 flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, ignorable, int16, int64, since


class SaslAuthenticateRequest(Message, frozen=True, kw_only=True):
    auth_bytes: bytes = b""


class SaslAuthenticateResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[int64, since(1), ignorable] = 0
    """Time after which the client has to authenticate again; 0: never."""
