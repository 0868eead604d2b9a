"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms of users (KIP-554).

It is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int8, int16, int32


class DescribeUserScramCredentialsRequest(Message, frozen=True, kw_only=True):
    users: tuple[UserName, ...] | None = None
    """None or empty: every user."""


class UserName(Message, frozen=True, kw_only=True):
    name: str = ""


class DescribeUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


class DescribeUserScramCredentialsResult(Message, frozen=True, kw_only=True):
    user: str = ""
    error_code: int16 = 0
    error_message: str | None = None
    credential_infos: tuple[CredentialInfo, ...] = ()


class CredentialInfo(Message, frozen=True, kw_only=True):
    mechanism: int8 = 0
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    iterations: int32 = 0
