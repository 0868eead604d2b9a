"""Tests of DescribeUserScramCredentials and AlterUserScramCredentials: no user has any, and none can be set."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import alter_user_scram_credentials, describe_user_scram_credentials
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from understudy.foundation.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)


def describe(users: tuple[str, ...] | None) -> DescribeUserScramCredentialsResponse:
    async def scenario() -> DescribeUserScramCredentialsResponse:
        harness = BrokerHarness()
        named = None if users is None else tuple(UserName(name=user) for user in users)
        request = DescribeUserScramCredentialsRequest(users=named)
        return await describe_user_scram_credentials.handle(harness.services, request, harness.context(0))

    return asyncio.run(scenario())


@pytest.mark.parametrize("users", [None, ()])
def test_no_user_has_credentials(users: tuple[str, ...] | None) -> None:
    assert describe(users) == DescribeUserScramCredentialsResponse(error_message="")


def test_each_named_user_has_one_result() -> None:
    found = describe(("a", "b", "b", ""))
    assert [(each.user, each.error_code, each.error_message) for each in found.results] == [
        ("a", Errors.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: a"),
        (
            "b",
            Errors.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: b",
        ),
        ("", Errors.RESOURCE_NOT_FOUND, "Username must not be empty"),
    ]


def test_credentials_are_refused_and_there_are_none_to_delete() -> None:
    async def scenario() -> AlterUserScramCredentialsResponse:
        harness = BrokerHarness()
        request = AlterUserScramCredentialsRequest(
            deletions=tuple(ScramCredentialDeletion(name=user, mechanism=1) for user in ("a", "b")),
            upsertions=(ScramCredentialUpsertion(name="b", mechanism=2, iterations=4096),),
        )
        return await alter_user_scram_credentials.handle(harness.services, request, harness.context(0))

    results = {each.user: each for each in asyncio.run(scenario()).results}
    assert {user: each.error_code for user, each in results.items()} == {
        "a": Errors.RESOURCE_NOT_FOUND,
        "b": Errors.UNSUPPORTED_SASL_MECHANISM,
    }
    assert results["a"].error_message == "Attempt to delete a user credential that does not exist"
    assert "authenticates no clients" in (results["b"].error_message or "")
