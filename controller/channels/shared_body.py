"""Encodes a request once for many brokers that receive the same but for the broker epoch.

A takeover sends every partition to every broker, and encoding is most of what that costs. The fields before the broker
epoch have a fixed length, so a broker's bytes are a copy with eight of them replaced; versions without a broker epoch
are the same for all. Kafka encodes for each broker, in as many threads.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from understudy.controller.channels.request_shapes import in_version
from understudy.foundation.wire.codec import encode
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest

_BROKER_EPOCH: Final = Struct(">q")
_EPOCHS_BYTES: Final = 8
"""Number of bytes of controller id and controller epoch, before the broker epoch; later versions add isKRaftController,
1 byte."""

Shareable: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest

_SINCE: Final[dict[type[Shareable], tuple[int, int]]] = {LeaderAndIsrRequest: (2, 7), UpdateMetadataRequest: (5, 8)}
"""First versions with a broker epoch and with isKRaftController."""


class SharedBody:
    """The bytes of `message` at `version` for any broker epoch; encoded on first use."""

    def __init__(self, message: Shareable, version: int) -> None:
        self._message = message
        self._version = version
        self._encoded: bytes | None = None

    def at(self, broker_epoch: int) -> bytes:
        """Return the bytes for `broker_epoch`.

        Raises:
            UnencodableValue: see `codec.encode`.
        """
        if self._encoded is None:
            self._encoded = encode(in_version(self._message, self._version), self._version)
        with_epoch, with_kraft = _SINCE[type(self._message)]
        if self._version < with_epoch:
            return self._encoded
        start = _EPOCHS_BYTES + (self._version >= with_kraft)
        end = start + _BROKER_EPOCH.size
        return b"".join((self._encoded[:start], _BROKER_EPOCH.pack(broker_epoch), memoryview(self._encoded)[end:]))
