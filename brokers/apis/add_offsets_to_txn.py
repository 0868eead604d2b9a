"""AddOffsetsToTxn (key 25, versions 0 to 4): NOT_COORDINATOR, because no broker of ours coordinates transactions."""

from __future__ import annotations

from understudy.brokers.apis.no_transactions import coordinator_error
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


async def handle(
    services: BrokerServices, request: AddOffsetsToTxnRequest, context: RequestContext
) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=coordinator_error(request.transactional_id))


SERVES = Serves(request=AddOffsetsToTxnRequest, versions=(0, 4), handle=handle)
