"""Operations that a client may carry out, as bits by `AclOperation` code. Without an authorizer all are allowed."""

from __future__ import annotations

NOT_ASKED = -(2**31)

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
_DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 10, 11, 12


def _bits(*codes: int) -> int:
    return sum(1 << code for code in codes)


EVERY_TOPIC_OPERATION = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
EVERY_CLUSTER_OPERATION = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)
EVERY_GROUP_OPERATION = _bits(_READ, _DELETE, _DESCRIBE)
