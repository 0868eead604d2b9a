"""Tests of InitProducerId: the producer ids given, and the errors."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import init_producer_id
from understudy.brokers.apis.init_producer_id import error_of
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

HALF_AN_HOUR_MS = 1_800_000
NO_COORDINATOR = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
"""Error that ends the producer; NOT_COORDINATOR would have it look for another coordinator without end."""


class Ids:
    """Stands for the producer id manager: has the ids 4,000 and 4,001."""

    def __init__(self) -> None:
        self.left = [4_000, 4_001]

    async def generate_producer_id(self) -> int:
        if not self.left:
            raise ApiError(Errors.COORDINATOR_LOAD_IN_PROGRESS, "Producer ID block is full. Waiting for next block")
        return self.left.pop(0)

    async def run(self) -> None:
        raise AssertionError("the handler does not run the manager")


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (InitProducerIdRequest(), None),
        (InitProducerIdRequest(transaction_timeout_ms=-1), None),
        (InitProducerIdRequest(producer_id=5, producer_epoch=3), None),
        (InitProducerIdRequest(producer_id=5), Errors.INVALID_REQUEST),
        (InitProducerIdRequest(producer_epoch=3), Errors.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id="t", producer_epoch=3), Errors.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id=""), Errors.INVALID_REQUEST),
        (InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=0), Errors.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=-1), Errors.INVALID_TRANSACTION_TIMEOUT),
        (
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=900_001),
            Errors.INVALID_TRANSACTION_TIMEOUT,
        ),
        (InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=900_000), NO_COORDINATOR),
        (
            InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1, producer_id=5, producer_epoch=3),
            NO_COORDINATOR,
        ),
    ],
)
def test_errors_are_found_in_kafkas_order(request_: InitProducerIdRequest, refused: Errors | None) -> None:
    assert error_of(request_, transaction_max_timeout_ms=900_000) == refused


@pytest.mark.spec("CO-6")
def test_each_producer_gets_an_id_of_its_own_with_epoch_zero() -> None:
    async def scenario() -> list[InitProducerIdResponse]:
        harness = BrokerHarness(producer_ids=Ids())
        going_on = InitProducerIdRequest(producer_id=77, producer_epoch=8)
        requests = (InitProducerIdRequest(), going_on, InitProducerIdRequest())
        return [await init_producer_id.handle(harness.services, request, harness.context(5)) for request in requests]

    assert asyncio.run(scenario()) == [
        InitProducerIdResponse(producer_id=4_000, producer_epoch=0),
        InitProducerIdResponse(producer_id=4_001, producer_epoch=0),
        InitProducerIdResponse(error_code=Errors.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1),
    ]


@pytest.mark.spec("CO-6")
def test_a_transactional_producer_is_ended_whatever_its_timeout_is() -> None:
    async def scenario(config: KafkaConfig) -> InitProducerIdResponse:
        harness = BrokerHarness(config, producer_ids=Ids())
        request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=HALF_AN_HOUR_MS)
        return await init_producer_id.handle(harness.services, request, harness.context(5))

    too_long, fitting = KafkaConfig(), KafkaConfig(transaction_max_timeout_ms=HALF_AN_HOUR_MS)
    nothing = {"producer_id": -1, "producer_epoch": -1}
    assert asyncio.run(scenario(too_long)) == InitProducerIdResponse(
        error_code=Errors.INVALID_TRANSACTION_TIMEOUT, **nothing
    )
    assert asyncio.run(scenario(fitting)) == InitProducerIdResponse(error_code=NO_COORDINATOR, **nothing)


@pytest.mark.parametrize(
    ("leaders", "error"),
    [
        ({}, NO_COORDINATOR),
        ({"__transaction_state": {13: 1}}, NO_COORDINATOR),
        ({"__transaction_state": {13: 2}}, Errors.NOT_COORDINATOR),
        ({"__transaction_state": {13: -1}}, Errors.NOT_COORDINATOR),
    ],
    ids=["no topic", "this broker leads", "another broker leads", "no leader"],
)
def test_a_producer_looks_on_only_for_a_coordinator_that_is_another_broker(
    leaders: dict[str, dict[int, int]], error: Errors
) -> None:
    """`payments` is stored in partition 13. In a cluster with Kafka's brokers, one of them may coordinate it."""

    async def scenario() -> int:
        harness = BrokerHarness(producer_ids=Ids())
        harness.update_metadata(leaders)
        request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=1)
        return (await init_producer_id.handle(harness.services, request, harness.context(5))).error_code

    assert partition_for("payments", 50) == 13
    assert asyncio.run(scenario()) == error
