"""Bytes that a client sends against Kafka's protocol: nothing, half a request, or bytes that are no request."""

from __future__ import annotations

from typing import Final

from understudy.clusters.request_rules import KAFKA_REQUEST

FLOOD: Final = 100
"""Default number of connections that a flood opens."""

_METADATA: Final = 3
_MANY: Final = 0x7FFFFFF0

KINDS: Final = (
    b"",
    KAFKA_REQUEST.pack(100, _METADATA, 9, 1)[:9],
    b"GET / HTTP/1.1\r\n\r\n",
    KAFKA_REQUEST.pack(_MANY, _METADATA, 9, 2),
    KAFKA_REQUEST.pack(24, 999, 9, 3) + b"\xff" * 16,
    # An array of more topics than the request has bytes.
    KAFKA_REQUEST.pack(18, _METADATA, 1, 4) + b"\xff\xff" + _MANY.to_bytes(4) + b"\0\0\0\0",
)
"""Nothing; the beginning of a request; another protocol; a request of 2 GB; an unknown kind; an oversized array."""


def bad_bytes(number: int) -> bytes:
    """Return the bytes that the connection with this number sends; the kinds take turns."""
    return KINDS[number % len(KINDS)]
