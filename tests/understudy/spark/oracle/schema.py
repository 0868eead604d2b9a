"""Derives rules for the fields of records from the structs of the record types, as SQL; nothing here needs Spark.

An envelope is read with its `data` as text, and the rules then say whether the text fits the record's type. Spark
refuses the same lines as `understudy.history.reading.reader`, with exceptions that no writer causes: a number in place
of text, a wrong value inside an array, and a second object on one line are not refused.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import inspect

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload

ENVELOPE_DDL = (
    "version BIGINT, run STRING, node STRING, incarnation BIGINT, seq BIGINT, mono_ms DOUBLE, wall_ms DOUBLE, "
    "type STRING, cause BIGINT, zxid BIGINT, controller_epoch BIGINT, data STRING, corrupt STRING"
)
"""The schema of a line. Spark puts a line that does not fit into the column `corrupt`."""

_FieldType: TypeAlias = inspect.Type


def field_rules() -> str:
    """Return SQL for a map from each record type to the rules for its `data`: (field, kind, required, nullable)."""
    entries = []
    for name in sorted(PAYLOAD_BY_TYPE):
        rules = (
            f"struct('{field.encode_name}', '{_kind(field.type)}', "
            f"{_sql(field.required)}, {_sql(_nullable(field.type))})"
            for field in _fields(PAYLOAD_BY_TYPE[name])
        )
        entries.append(f"'{name}', array({', '.join(rules)})")
    return f"map({', '.join(entries)})"


def rule_is_satisfied(rule: str, data: str) -> str:
    """Return SQL for whether `data`, a map from field to text, satisfies one rule of `field_rules`."""
    value = f"{data}[{rule}.col1]"
    return (
        f"CASE WHEN NOT map_contains_key({data}, {rule}.col1) THEN NOT {rule}.col3 "
        f"WHEN {value} IS NULL THEN {rule}.col4 "
        f"WHEN {rule}.col2 = 'BIGINT' THEN try_cast({value} AS BIGINT) IS NOT NULL "
        f"WHEN {rule}.col2 = 'DOUBLE' THEN try_cast({value} AS DOUBLE) IS NOT NULL "
        f"WHEN {rule}.col2 = 'BOOLEAN' THEN {value} IN ('true', 'false') "
        f"WHEN {rule}.col2 = 'ARRAY' THEN startswith({value}, '[') "
        f"WHEN {rule}.col2 = 'OBJECT' THEN startswith({value}, '{{') "
        "ELSE true END"
    )


def _struct(struct: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return info


def _fields(payload: type[Payload]) -> tuple[inspect.Field, ...]:
    return _struct(payload).fields


def _kind(field: _FieldType) -> str:
    match field:
        case inspect.IntType():
            return "BIGINT"
        case inspect.FloatType():
            return "DOUBLE"
        case inspect.BoolType():
            return "BOOLEAN"
        case inspect.StrType():
            return "STRING"
        case inspect.UnionType():
            return _kind(_without_none(field))
        case inspect.DictType():
            return "OBJECT"
        case inspect.VarTupleType() | inspect.TupleType() | inspect.StructType(array_like=True):
            return "ARRAY"
        case _:
            raise AssertionError(f"no kind is known for {field}; add it to this module")


def _nullable(field: _FieldType) -> bool:
    return isinstance(field, inspect.UnionType) and field.includes_none


def _without_none(field: inspect.UnionType) -> _FieldType:
    types = [each for each in field.types if not isinstance(each, inspect.NoneType)]
    assert len(types) == 1, f"a field of several types, {types}, has no Spark type"
    return types[0]


def _sql(truth: bool) -> str:
    return "true" if truth else "false"
