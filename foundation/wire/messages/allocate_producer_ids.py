"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids (KIP-730).

Versions: 0 only, flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    """The czxid of the sender's registration."""


class AllocateProducerIdsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    """The first id of the block."""
    producer_id_len: int32 = 0
