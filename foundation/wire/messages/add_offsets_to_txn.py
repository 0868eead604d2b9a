"""AddOffsetsToTxn (key 25): a group's offsets join a transaction (KIP-98).

Versions: 2 a new error code; 3 flexible; 4 a new error code (KIP-890).
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int16, int32, int64


class AddOffsetsToTxnRequest(Message, frozen=True, kw_only=True):
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: str = ""


class AddOffsetsToTxnResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
