"""SaslHandshake (key 17): a client names the SASL mechanism that it is about to use.

Version 1 is followed by SaslAuthenticate requests; version 0 by bytes without a header.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16


class SaslHandshakeRequest(Message, frozen=True, kw_only=True):
    mechanism: str = ""


class SaslHandshakeResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    mechanisms: tuple[str, ...] = ()
