"""Checks the names of topics. Mirrors `org.apache.kafka.common.internals.Topic`; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_NAME_LENGTH = 249
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
_INTERNAL = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state"})


def why_invalid(name: str) -> str | None:
    """Return Kafka's reason for refusing `name`; None if it is valid (TC-5)."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        # Kafka repeats the whole name; the longest one that fits into a request would not fit into the response.
        start = name if len(name) <= 2 * MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…"
        return f"Topic name is invalid: the length of '{start}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', "
            "'_' and '-'"
        )
    return None


def is_internal(name: str) -> bool:
    return name in _INTERNAL


def has_collision_characters(name: str) -> bool:
    return "." in name or "_" in name


def collisions(name: str, existing: Iterable[str]) -> tuple[str, ...]:
    """Return the existing topics, sorted, whose metrics would have the same names: `.` and `_` are equal there."""
    unified = name.replace(".", "_")
    return tuple(sorted(other for other in existing if other.replace(".", "_") == unified))
