"""DescribeTransactions (key 65, version 0): NOT_COORDINATOR, because no broker of ours coordinates transactions."""

from __future__ import annotations

from understudy.brokers.apis.no_transactions import coordinator_error
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


async def handle(
    services: BrokerServices, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(
            TransactionState(transactional_id=each, error_code=coordinator_error(each))
            for each in request.transactional_ids
        )
    )


SERVES = Serves(request=DescribeTransactionsRequest, versions=(0, 0), handle=handle)
