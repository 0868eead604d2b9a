"""Reads the ids of topics as Java does: `Uuid.fromString`, with the messages of Java's decoder of base64."""

from __future__ import annotations

import base64
import re
from typing import Final

from understudy.kafka_tools.errors import illegal_argument

MAX_CHARACTERS: Final = 24
ID_BYTES: Final = 16

_NO_BASE64 = re.compile(r"[^A-Za-z0-9_=-]")


def parse_uuid(text: str) -> str:
    """Return an id in its usual form of 22 characters. Raises ToolError."""
    if len(text) > MAX_CHARACTERS:
        raise illegal_argument(
            f"Input string with prefix `{text[:MAX_CHARACTERS]}` is too long to be decoded as a base64 UUID"
        )
    decoded = _decoded(text)
    if len(decoded) != ID_BYTES:
        raise illegal_argument(
            f"Input string `{text}` decoded as {len(decoded)} bytes, which is not equal to the expected {ID_BYTES} "
            "bytes of a base64-encoded UUID"
        )
    return base64.urlsafe_b64encode(decoded).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """Decode base64 for URLs. Raises ToolError."""
    if len(text) == 1:
        raise illegal_argument("Input byte[] should at least have 2 bytes for base64 bytes")
    digits, padding, rest = text.partition("=")
    if illegal := _NO_BASE64.search(digits):
        raise illegal_argument(f"Illegal base64 character {ord(illegal[0]):x}")
    over = len(digits) % 4
    if padding and (over < 2 or (over == 2 and not rest.startswith("="))):
        raise illegal_argument("Input byte array has wrong 4-byte ending unit")
    if over == 1:
        raise illegal_argument("Last unit does not have enough valid bits")
    ends_at = len(digits) + (4 - over if padding else 0)
    if ends_at < len(text):
        raise illegal_argument(f"Input byte array has incorrect ending byte at {ends_at}")
    return base64.urlsafe_b64decode(digits + "=" * (-over % 4))
