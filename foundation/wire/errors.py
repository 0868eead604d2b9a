"""The errors of encoding and decoding."""

from __future__ import annotations


class WireError(Exception):
    """The base class of the codec's errors."""


class MalformedMessage(WireError):
    """Bytes that cannot be decoded. The text names message, version, field path, offset and reason.

    The connection that they came over has to be closed. Mirrors
    `org.apache.kafka.common.protocol.types.SchemaException`.
    """

    def __init__(self, message: str, version: int, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{message} v{version}: {path or 'message'} at offset {offset}: {reason}")
        self.message = message
        self.version = version
        self.path = path
        self.offset = offset
        self.reason = reason


class InvalidReceive(MalformedMessage):
    """A frame whose size is negative or above the limit, named `limit`. Mirrors `InvalidReceiveException`."""

    def __init__(self, size: int, max_bytes: int, limit: str) -> None:
        expected = f"expected 0 to {max_bytes} ({limit})"
        WireError.__init__(self, f"frame announces {size} bytes; {expected}")
        self.message = "frame"
        self.version = 0
        self.path = "size"
        self.offset = 0
        self.reason = f"{size} bytes; {expected}"


class UnsupportedVersion(WireError):
    """An unknown version, or a value that the version cannot hold; the text names which.

    Mirrors `org.apache.kafka.common.errors.UnsupportedVersionException`.
    """


class UnencodableValue(WireError):
    """A value that no version can hold, such as a number out of range; the text names field, value and expectation."""
