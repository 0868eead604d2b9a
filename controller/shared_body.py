"""One body for many brokers: a request that differs from broker to broker in nothing but the broker epoch, encoded once.

A takeover tells every broker of every partition, and encoding that is most of what it costs. The header fields that all control
requests begin with have a fixed length in the versions sent, so a broker's own bytes are a copy with eight of them replaced.
Kafka encodes for each broker, in as many threads.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from foundation.wire.codec import encode
from foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from foundation.wire.messages.update_metadata import UpdateMetadataRequest

_BROKER_EPOCH: Final = Struct(">q")
_AT: Final = 9
"""Behind controller id (4 bytes), isKRaftController (1) and controller epoch (4)."""

Shareable: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest


class SharedBody:
    """The bytes of `message` at `version`, a version with isKRaftController, for any broker epoch; made on demand."""

    def __init__(self, message: Shareable, version: int) -> None:
        self._message = message
        self._version = version
        self._encoded: bytes | None = None

    def at(self, broker_epoch: int) -> bytes:
        """
        Raises:
            UnencodableValue: see `codec.encode`.
        """
        if self._encoded is None:
            self._encoded = encode(self._message, self._version)
        behind = _AT + _BROKER_EPOCH.size
        return b"".join((self._encoded[:_AT], _BROKER_EPOCH.pack(broker_epoch), memoryview(self._encoded)[behind:]))
