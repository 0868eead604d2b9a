"""InitProducerId (key 22, versions 0 to 5): a producer id, with which brokers recognise repeated batches.

Every idempotent producer, Java's by default, sends it to any broker. Mirrors `KafkaApis.handleInitProducerIdRequest`
and `TransactionCoordinator.handleInitProducerId`. A transactional producer has to send it to its coordinator. These
brokers coordinate no transactions: unless a broker of Kafka does, NOT_COORDINATOR would have the producer look for
another coordinator without end, so the answer is an error that ends it. Versions: 3 an existing id and epoch, both or
neither.
"""

from __future__ import annotations

from understudy.brokers.apis.no_transactions import is_coordinated_elsewhere
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.init_producer_id import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)


async def handle(
    services: BrokerServices, request: InitProducerIdRequest, context: RequestContext
) -> InitProducerIdResponse:
    invalid = error_of(
        request,
        transaction_max_timeout_ms=services.config.transaction_max_timeout_ms,
        coordinated_elsewhere=is_coordinated_elsewhere(services, request.transactional_id or ""),
    )
    if invalid is not None:
        return _refused(invalid)
    try:
        producer_id = await services.producer_ids.generate_producer_id()
    except ApiError as error:
        return _refused(error.error)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def error_of(
    request: InitProducerIdRequest, *, transaction_max_timeout_ms: int, coordinated_elsewhere: bool = False
) -> Errors | None:
    """Return why the request gets no id, in Kafka's order of checks; None if it does. Pure.

    A producer without a transactional id is given a new id, whichever one it had.

    Args:
        coordinated_elsewhere: whether another broker coordinates the transactional id.
    """
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return Errors.INVALID_REQUEST
    if request.transactional_id is None:
        return None
    if not request.transactional_id:
        return Errors.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= transaction_max_timeout_ms:
        return Errors.INVALID_TRANSACTION_TIMEOUT
    return Errors.NOT_COORDINATOR if coordinated_elsewhere else Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _refused(error: Errors) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


SERVES = Serves(request=InitProducerIdRequest, versions=(0, 5), handle=handle)
