"""Envelope (key 58): a request that a broker forwards to the controller for a client (KIP-590).

It is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16


class EnvelopeRequest(Message, frozen=True, kw_only=True):
    request_data: bytes = b""
    """Header and body of the request."""
    request_principal: bytes | None = None
    """The principal of the client."""
    client_host_address: bytes = b""
    """The address of the client, as 4 or 16 bytes."""


class EnvelopeResponse(Message, frozen=True, kw_only=True):
    response_data: bytes | None = None
    """Header and body of the response; None if the envelope is refused."""
    error_code: int16 = 0
