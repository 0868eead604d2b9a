"""What can go wrong between bytes and messages."""

from __future__ import annotations


class WireError(Exception):
    """Base of everything the codec raises on purpose."""


class MalformedMessage(WireError):
    """Bytes that are not the message they claim to be. The text names message, version, field path, offset and reason.

    Mirrors `org.apache.kafka.common.protocol.types.SchemaException`. The connection they came over cannot be trusted
    further.
    """

    def __init__(self, message: str, version: int, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{message} v{version}: {path or 'message'} at offset {offset}: {reason}")
        self.message = message
        self.version = version
        self.path = path
        self.offset = offset
        self.reason = reason


class InvalidReceive(MalformedMessage):
    """A frame whose announced size is negative or above the limit, called `limit`. Mirrors
    `InvalidReceiveException`."""

    def __init__(self, size: int, max_bytes: int, limit: str) -> None:
        expected = f"expected 0 to {max_bytes} ({limit})"
        WireError.__init__(self, f"frame announces {size} bytes; {expected}")
        self.message = "frame"
        self.version = 0
        self.path = "size"
        self.offset = 0
        self.reason = f"{size} bytes; {expected}"


class UnsupportedVersion(WireError):
    """A version nobody knows, or a value the asked-for version cannot carry; the text names which.

    Mirrors `org.apache.kafka.common.errors.UnsupportedVersionException`.
    """


class UnencodableValue(WireError):
    """A value that no version can carry, such as a number out of range; the text names field, value and what was
    expected."""
