"""One body for many brokers: a request that differs from broker to broker in nothing but the broker epoch, encoded
once.

A takeover tells every broker of every partition, and encoding that is most of what it costs. The header fields that all
control requests begin with have a fixed length, so a broker's own bytes are a copy with eight of them replaced;
versions that know no broker epoch say the same to all. Kafka encodes for each broker, in as many threads.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from controller.channels.request_shapes import in_shape
from foundation.wire.codec import encode
from foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from foundation.wire.messages.update_metadata import UpdateMetadataRequest

_BROKER_EPOCH: Final = Struct(">q")
_EPOCHS_BYTES: Final = 8
"""Controller id and controller epoch stand before the broker epoch; from some version on isKRaftController, 1 byte,
too."""

Shareable: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest

_SINCE: Final[dict[type[Shareable], tuple[int, int]]] = {LeaderAndIsrRequest: (2, 7), UpdateMetadataRequest: (5, 8)}
"""The first versions with a broker epoch and with isKRaftController."""


class SharedBody:
    """The bytes of `message` at `version` for any broker epoch; made on demand."""

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
            self._encoded = encode(in_shape(self._message, self._version), self._version)
        with_epoch, with_kraft = _SINCE[type(self._message)]
        if self._version < with_epoch:
            return self._encoded
        start = _EPOCHS_BYTES + (self._version >= with_kraft)
        end = start + _BROKER_EPOCH.size
        return b"".join((self._encoded[:start], _BROKER_EPOCH.pack(broker_epoch), memoryview(self._encoded)[end:]))
