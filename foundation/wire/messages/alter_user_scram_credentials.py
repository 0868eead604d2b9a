"""AlterUserScramCredentials (key 51): set or delete SCRAM credentials of users (KIP-554).

It is flexible.
"""

from __future__ import annotations

from understudy.foundation.wire.schema import Message, int8, int16, int32


class AlterUserScramCredentialsRequest(Message, frozen=True, kw_only=True):
    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


class ScramCredentialDeletion(Message, frozen=True, kw_only=True):
    name: str = ""
    mechanism: int8 = 0
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""


class ScramCredentialUpsertion(Message, frozen=True, kw_only=True):
    name: str = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


class AlterUserScramCredentialsResult(Message, frozen=True, kw_only=True):
    user: str = ""
    error_code: int16 = 0
    error_message: str | None = None
