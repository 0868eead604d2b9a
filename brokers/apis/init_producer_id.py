"""InitProducerId (key 22, versions 0 to 5): an id for a producer, so that its repeated batches can be told from new
ones.

Asked by every producer that is idempotent, which Java's are unless told otherwise, of any broker there is. Mirrors
`KafkaApis.handleInitProducerIdRequest` and `TransactionCoordinator.handleInitProducerId`. A producer with transactions
has to ask the coordinator of its transactional id; these brokers lead no partition of `__transaction_state` that holds
anything, and say what a broker says that is not the one. Versions: 3 an id and epoch to go on with, both or neither.
"""

from __future__ import annotations

from brokers.apis.services import BrokerServices, RequestContext
from brokers.apis.serving import Serves
from foundation.cluster.errors import ApiError, Errors
from foundation.wire.messages.init_producer_id import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)


async def handle(
    services: BrokerServices, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    refusal = why_refused(request, transaction_max_timeout_ms=services.config.transaction_max_timeout_ms)
    if refusal is not None:
        return _refused(refusal)
    try:
        producer_id = await services.producer_ids.generate_producer_id()
    except ApiError as error:
        return _refused(error.error)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def why_refused(request: InitProducerIdRequest, *, transaction_max_timeout_ms: int) -> Errors | None:
    """What stands against an answer with an id, in Kafka's order; None where nothing does. Pure.

    Whoever has no transactional id is given a new id, whichever it had.
    """
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Errors.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return Errors.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= transaction_max_timeout_ms:
        return Errors.INVALID_TRANSACTION_TIMEOUT
    return Errors.NOT_COORDINATOR


def _refused(error: Errors) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


SERVES = Serves(request=InitProducerIdRequest, versions=(0, 5), handle=handle)
