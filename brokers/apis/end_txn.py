"""EndTxn (key 26, versions 0 to 4): NOT_COORDINATOR, because no broker of ours coordinates transactions."""

from __future__ import annotations

from understudy.brokers.apis.no_transactions import coordinator_error
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


async def handle(services: BrokerServices, request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    return EndTxnResponse(error_code=coordinator_error(request.transactional_id))


SERVES = Serves(request=EndTxnRequest, versions=(0, 4), handle=handle)
