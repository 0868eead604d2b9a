"""Tests of the requests about ACLs, delegation tokens and SASL: the answers of a Kafka without an authorizer, on a
PLAINTEXT listener.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.brokers.harness import BrokerHarness
from understudy.brokers.apis import (
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from understudy.foundation.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from understudy.foundation.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
)
from understudy.foundation.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from understudy.foundation.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from understudy.foundation.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from understudy.foundation.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from understudy.foundation.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from understudy.foundation.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Q = TypeVar("Q")
A = TypeVar("A")

NO_TOKENS = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def answer(handle: Callable[[BrokerServices, Q, RequestContext], Awaitable[A]], request: Q, version: int) -> A:
    async def scenario() -> A:
        harness = BrokerHarness()
        return await handle(harness.services, request, harness.context(version))

    return asyncio.run(scenario())


def test_acls_are_disabled() -> None:
    assert answer(describe_acls.handle, DescribeAclsRequest(), 3) == DescribeAclsResponse(
        error_code=Errors.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_acl_has_a_result(count: int) -> None:
    error, message = Errors.SECURITY_DISABLED, "No Authorizer is configured."
    created = answer(create_acls.handle, CreateAclsRequest(creations=(AclCreation(),) * count), 3)
    assert created.results == (AclCreationResult(error_code=error, error_message=message),) * count
    deleted = answer(delete_acls.handle, DeleteAclsRequest(filters=(DeleteAclsFilter(),) * count), 3)
    assert deleted.filter_results == (DeleteAclsFilterResult(error_code=error, error_message=message),) * count


@pytest.mark.parametrize(
    ("version", "owner", "named", "requester"),
    [
        (0, (None, None), ("User", "ANONYMOUS"), ("", "")),
        (2, (None, None), ("User", "ANONYMOUS"), ("", "")),
        (3, (None, None), ("User", "ANONYMOUS"), ("User", "ANONYMOUS")),
        (3, ("User", ""), ("User", "ANONYMOUS"), ("User", "ANONYMOUS")),
        (3, ("User", "bob"), ("User", "bob"), ("User", "ANONYMOUS")),
    ],
)
def test_no_delegation_token_is_created_on_a_plaintext_listener(
    version: int, owner: tuple[str | None, str | None], named: tuple[str, str], requester: tuple[str, str]
) -> None:
    request = CreateDelegationTokenRequest(owner_principal_type=owner[0], owner_principal_name=owner[1])
    assert answer(create_delegation_token.handle, request, version) == CreateDelegationTokenResponse(
        error_code=NO_TOKENS,
        principal_type=named[0],
        principal_name=named[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def test_no_delegation_token_is_renewed_expired_or_described_on_a_plaintext_listener() -> None:
    renewed = answer(renew_delegation_token.handle, RenewDelegationTokenRequest(hmac=b"h"), 2)
    assert renewed == RenewDelegationTokenResponse(error_code=NO_TOKENS, expiry_timestamp_ms=-1)
    expired = answer(expire_delegation_token.handle, ExpireDelegationTokenRequest(hmac=b"h"), 2)
    assert expired == ExpireDelegationTokenResponse(error_code=NO_TOKENS, expiry_timestamp_ms=-1)
    described = answer(describe_delegation_token.handle, DescribeDelegationTokenRequest(), 3)
    assert described == DescribeDelegationTokenResponse(error_code=NO_TOKENS)


def test_sasl_is_refused_on_a_plaintext_listener() -> None:
    handshake = answer(sasl_handshake.handle, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert handshake == SaslHandshakeResponse(error_code=Errors.ILLEGAL_SASL_STATE)
    authenticated = answer(sasl_authenticate.handle, SaslAuthenticateRequest(auth_bytes=b"\0bob\0secret"), 2)
    assert (authenticated.error_code, authenticated.error_message, authenticated.auth_bytes) == (
        Errors.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
        b"",
    )
