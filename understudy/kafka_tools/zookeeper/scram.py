"""Makes the credentials of SCRAM users as brokers store them (RFC 5802). Mirrors `ScramFormatter` and
`ScramCredentialUtils`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import re
from typing import Final

from understudy.kafka_tools.errors import illegal_argument

MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The names of hash functions by the names of mechanisms."""
ITERATIONS: Final = 4096
"""The default number of iterations, and the least."""
_VALUE: Final = re.compile(r"(?:iterations=([0-9]*),)?password=(.*)")
_SALT_BYTES: Final = 16


def credential(mechanism: str, value: str, source: random.Random) -> str:
    """Return the credential of a password.

    Args:
        value: `password=…` or `iterations=N,password=…`.
        source: draws the salt.

    Raises:
        ToolError: `value` has another form, or too few iterations.
    """
    matched, shown = _VALUE.fullmatch(value), mechanism.replace("-", "_")
    if matched is None:
        raise illegal_argument(f"Invalid credential property {shown}={value}")
    iterations = ITERATIONS if matched[1] is None else int(matched[1] or 0)
    if iterations < ITERATIONS:
        raise illegal_argument(f"Iterations {iterations} is less than the minimum {ITERATIONS} required for {shown}")
    return stored(MECHANISMS[mechanism], matched[2], source.randbytes(_SALT_BYTES), iterations)


def stored(hash_name: str, password: str, salt: bytes, iterations: int) -> str:
    """Return the salt, both keys and the number of iterations as a config value."""
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    keys = {
        "salt": salt,
        "stored_key": hashlib.new(hash_name, client_key).digest(),
        "server_key": hmac.digest(salted, b"Server Key", hash_name),
    }
    shown = ",".join(f"{name}={base64.b64encode(key).decode()}" for name, key in keys.items())
    return f"{shown},iterations={iterations}"
