"""ListTransactions (key 66): the transactional ids of a coordinator and their states (KIP-664).

Version 1 adds a filter by duration (KIP-994). Both are flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, int16, int32, int64, since


class ListTransactionsRequest(Message, frozen=True, kw_only=True):
    state_filters: tuple[str, ...] = ()
    """Empty: any state."""
    producer_id_filters: tuple[int64, ...] = ()
    """Empty: any producer id."""
    duration_filter: Annotated[int64, since(1)] = -1
    """Milliseconds that the transaction has been open for; negative: any."""


class ListTransactionsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    """The `state_filters` that name no state."""
    transaction_states: tuple[TransactionState, ...] = ()


class TransactionState(Message, frozen=True, kw_only=True):
    transactional_id: str = ""
    producer_id: int64 = 0
    transaction_state: str = ""
