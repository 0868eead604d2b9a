"""ListTransactions (key 66, versions 0 and 1): this broker coordinates no transactions, so it lists none.

Names in the request that are no states are returned. Mirrors `TransactionCoordinator.handleListTransactions`.
"""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

STATES = frozenset(
    (
        *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
        *("Dead", "PrepareEpochFence"),
    )
)
"""Names of the states of a transaction."""


async def handle(
    services: BrokerServices, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    unknown = dict.fromkeys(state for state in request.state_filters if state not in STATES)
    return ListTransactionsResponse(unknown_state_filters=tuple(unknown))


SERVES = Serves(request=ListTransactionsRequest, versions=(0, 1), handle=handle)
