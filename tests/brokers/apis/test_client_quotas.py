"""Tests of DescribeClientQuotas and AlterClientQuotas: no client has a quota, and none can be set."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import alter_client_quotas, describe_client_quotas
from understudy.brokers.apis.describe_client_quotas import error_of
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from understudy.foundation.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


def describe(*entity_types: str) -> DescribeClientQuotasResponse:
    async def scenario() -> DescribeClientQuotasResponse:
        harness = BrokerHarness()
        components = tuple(ComponentData(entity_type=each, match_type=2) for each in entity_types)
        request = DescribeClientQuotasRequest(components=components)
        return await describe_client_quotas.handle(harness.services, request, harness.context(1))

    return asyncio.run(scenario())


def test_no_client_has_a_quota() -> None:
    none = DescribeClientQuotasResponse(error_message="", entries=())
    assert describe() == describe("user", "client-id") == describe("ip") == none


@pytest.mark.parametrize(
    ("entity_types", "error", "message"),
    [
        ([""], Errors.INVALID_REQUEST, "Unexpected empty filter component entity type"),
        (["host"], Errors.UNSUPPORTED_VERSION, "Custom entity type 'host' not supported"),
        (["user", "user"], Errors.INVALID_REQUEST, "Duplicate user filter component entity type"),
        (["client-id", "client-id"], Errors.INVALID_REQUEST, "Duplicate client filter component entity type"),
        (["ip", "user"], Errors.INVALID_REQUEST, "Invalid entity filter component combination, IP filter component"),
    ],
)
def test_a_filter_is_checked_as_in_kafka(entity_types: list[str], error: Errors, message: str) -> None:
    why = error_of(entity_types)
    assert why is not None
    assert why.error is error
    assert why.message.startswith(message)
    assert describe(*entity_types) == DescribeClientQuotasResponse(
        error_code=why.error, error_message=why.message, entries=None
    )


def test_a_quota_that_would_not_be_enforced_is_refused() -> None:
    async def scenario() -> AlterClientQuotasResponse:
        harness = BrokerHarness()
        entity = (
            AlterClientQuotasRequestEntityData(entity_type="user", entity_name="bob"),
            AlterClientQuotasRequestEntityData(entity_type="client-id", entity_name=None),
        )
        entry = AlterClientQuotasRequestEntryData(entity=entity, ops=(OpData(key="producer_byte_rate", value=1.5),))
        request = AlterClientQuotasRequest(entries=(entry,))
        return await alter_client_quotas.handle(harness.services, request, harness.context(1))

    [entry] = asyncio.run(scenario()).entries
    assert entry.error_code == Errors.UNSUPPORTED_VERSION
    assert "enforces no client quotas" in (entry.error_message or "")
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "bob"), ("client-id", None)]
