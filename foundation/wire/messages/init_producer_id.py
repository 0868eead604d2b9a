"""InitProducerId (key 22): a producer requests its producer id (KIP-98).

Versions: 2 flexible; 3 the producer's present id and epoch, to be continued (KIP-360); 4 and 5 new error codes
only.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int16, int32, int64, since

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class InitProducerIdRequest(Message, frozen=True, kw_only=True):
    transactional_id: str | None = None
    """Null from a producer that is idempotent and not transactional."""
    transaction_timeout_ms: int32 = 0
    producer_id: Annotated[int64, since(3)] = NO_PRODUCER_ID
    producer_epoch: Annotated[int16, since(3)] = NO_PRODUCER_EPOCH


class InitProducerIdResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: int64 = NO_PRODUCER_ID
    producer_epoch: int16 = 0
