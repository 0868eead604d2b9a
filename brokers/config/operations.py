"""Applies a request's operations to a stored config: set, delete, append to a list, subtract from one. Pure.

Mirrors `ConfigAdminManager.prepareIncrementalConfigs`. An operation applied twice has the same result as once (except
subtracting from a list that has an item twice), so a write with an unknown outcome may be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from understudy.brokers.config.config_def import LIST, ConfigKey, shown
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.primitives import MAX_STRING_BYTES
from understudy.foundation.zk.client import MAX_REQUEST_BYTES

_ENTRY_BYTES = len('"":"",')


class AlterConfigOperation(IntEnum):
    """An operation, with its number in requests. Mirrors `AlterConfigOp.OpType`."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class RequestedConfig(NamedTuple):
    """One key of a request. `value` is None for DELETE only, once `check_changes` has passed."""

    name: str
    operation: int
    value: str | None


def check_changes(changes: Iterable[RequestedConfig]) -> None:
    """Check the changes of one resource, of whatever type.

    Raises:
        ApiError: INVALID_REQUEST; INVALID_CONFIG if no znode could hold the configs.
    """
    changes = tuple(changes)
    set_bytes = sum(
        _ENTRY_BYTES + len(name) + len(value or "")
        for name, operation, value in changes
        if operation == AlterConfigOperation.SET
    )
    if set_bytes > MAX_REQUEST_BYTES:
        # Checked first: handling a hundred thousand keys takes seconds, and no other request is answered meanwhile.
        raise ApiError(
            Errors.INVALID_CONFIG,
            f"{len(changes)} configs do not fit into a znode; "
            f"a request to ZooKeeper may have {MAX_REQUEST_BYTES} bytes",
        )
    if any(count > 1 for count in Counter(change.name for change in changes).values()):
        raise ApiError(Errors.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        change.name for change in changes if change.value is None and change.operation != AlterConfigOperation.DELETE
    ]
    if nulls:
        raise ApiError(Errors.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    for change in changes:
        if change.operation not in tuple(AlterConfigOperation):
            raise ApiError(Errors.INVALID_REQUEST, f"Unknown operations type {change.operation}")


def altered(
    stored: Mapping[str, str], changes: Iterable[RequestedConfig], table: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """Return `stored` after `changes`; the values are not checked.

    Args:
        table: the known keys, for the type and the default of a list.

    Raises:
        ApiError: INVALID_CONFIG if a value that is not a list is appended to or subtracted from, if a list becomes too
            long, and for an unknown key (Kafka: UNKNOWN_SERVER_ERROR).
    """
    config = dict(stored)
    for change in changes:
        match AlterConfigOperation(change.operation):
            case AlterConfigOperation.SET:
                config[change.name] = change.value or ""
            case AlterConfigOperation.DELETE:
                config.pop(change.name, None)
            case AlterConfigOperation.APPEND:
                present = [item for item in _items(_list_value(config, change, table)) if item]
                known = frozenset(present)
                config[change.name] = ",".join(
                    present + [item for item in _items(change.value or "") if item not in known]
                )
                _require_sendable(change.name, config[change.name])
            case AlterConfigOperation.SUBTRACT:
                present = _items(_list_value(config, change, table))
                gone = Counter(_items(change.value or ""))
                config[change.name] = ",".join(_without(present, gone))
    return config


def _list_value(config: Mapping[str, str], change: RequestedConfig, table: Mapping[str, ConfigKey]) -> str:
    key = table.get(change.name)
    if key is None:
        raise ApiError(Errors.INVALID_CONFIG, f"Unknown config name: {change.name}")
    if key.type is not LIST:
        verb = AlterConfigOperation(change.operation).name.lower()
        raise ApiError(Errors.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {change.name}")
    return config.get(change.name, shown(key.default) or "")


def _require_sendable(name: str, value: str) -> None:
    """Raise ApiError if a list has become too long for a response: its resource could not be described any more."""
    size = len(value.encode())
    if size > MAX_STRING_BYTES:
        raise ApiError(
            Errors.INVALID_CONFIG,
            f"The value of {name} would have {size} bytes; a response can carry {MAX_STRING_BYTES}",
        )


def _items(text: str) -> list[str]:
    """Split as Java does: empty items at the end are dropped, but an empty text is one item."""
    return text.rstrip(",").split(",") if text.rstrip(",") or not text else []


def _without(items: Iterable[str], gone: Counter[str]) -> list[str]:
    left = []
    for item in items:
        if gone[item]:
            gone[item] -= 1
        else:
            left.append(item)
    return left
