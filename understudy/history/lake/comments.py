"""Gives the meaning of a table's columns, from the strings after the fields of the struct that defines it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache

import msgspec

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Envelope
from understudy.history.lake.columns import (
    ENVELOPE_FIELDS,
    RUN_TABLES,
    payload_column_name,
    time_columns,
)

_RUN = "The id of the run."


@cache
def table_comments(name: str) -> dict[str, str]:
    """Return the meaning of each column of one of `RUN_TABLES`."""
    times = {
        time: f"`{milliseconds}` as a time in UTC, by the wall clock of the run's first record."
        for time, milliseconds in time_columns(name).items()
    }
    return {"run": _RUN, **column_comments(RUN_TABLES[name]), **times}


@cache
def record_comments(name: str) -> dict[str, str]:
    """Return the meaning of each column of the table of a record type."""
    of_envelope = column_comments(Envelope)
    envelope = {field.name: of_envelope[field.name] for field in ENVELOPE_FIELDS if field.name in of_envelope}
    payload = column_comments(PAYLOAD_BY_TYPE[name])
    return {
        **envelope,
        "run": _RUN,
        **{payload_column_name(field): text for field, text in payload.items()},
        "wall_at": "`wall_ms` as a time in UTC.",
    }


@cache
def column_comments(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the meaning of each field of a struct and of its bases, in one line; empty if there is no source."""
    comments: dict[str, str] = {}
    for owner in reversed(struct.__mro__):
        if issubclass(owner, msgspec.Struct) and owner is not msgspec.Struct:
            comments |= _comments_of(owner)
    return comments


def attribute_docstrings(owner: ast.ClassDef) -> dict[str, str]:
    """Return the string after the definition of each attribute of a class, in one line, if there is one."""
    return {
        target.id: " ".join(text.split())
        for node, text in documented_statements(owner)
        for target in _targets(node)
        if text is not None
    }


def documented_statements(owner: ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[ast.stmt, str | None]]:
    """Return the statements of a body, each with the string after it."""
    for node, after in zip(owner.body, [*owner.body[1:], None], strict=True):
        match after:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node, text
            case _:
                yield node, None


def _comments_of(owner: type) -> dict[str, str]:
    definition = _classes_of(owner.__module__).get(owner.__qualname__)
    return {} if definition is None else attribute_docstrings(definition)


@cache
def _classes_of(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes at the top of a module; none if there is no source, as in an archive of compiled modules."""
    try:
        source = inspect.getsource(sys.modules[module])
    except OSError:
        return {}
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def _targets(node: ast.stmt) -> list[ast.Name]:
    match node:
        case ast.Assign(targets=targets):
            return [target for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name() as target):
            return [target]
    return []
