"""Derives Spark's schemas from the structs of the record types, as text; nothing here needs Spark.

An envelope is read with its `data` as text, and the `data` of each type then with a schema of its own. A named tuple is
written as an array of values of different types, which Spark has no type for: it is read as an array of text, and each
field is converted to its type.

Spark refuses the same lines as `understudy.history.reading.reader`, with exceptions that no writer causes: a number
in place of text is read as text, a wrong value inside an array becomes null, and a second object on one line is
ignored.
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


def data_ddl(payload: type[Payload]) -> str:
    """Return the schema with which Spark reads the `data` of one record type from text."""
    return ", ".join(f"`{field.encode_name}` {_read_type(field.type)}" for field in _fields(payload))


def data_columns(payload: type[Payload], source: str) -> str:
    """Return SQL that converts a struct read with `data_ddl` to the types of the record's fields, with their defaults.

    Args:
        source: the name of the struct's column.
    """
    columns = (
        f"'{field.encode_name}', {_or_default(_converted(field.type, f'{source}.`{field.encode_name}`'), field)}"
        for field in _fields(payload)
    )
    return f"named_struct({', '.join(columns)})"


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


def _read_type(field: _FieldType) -> str:
    match field:
        case inspect.IntType():
            return "BIGINT"
        case inspect.FloatType():
            return "DOUBLE"
        case inspect.BoolType():
            return "BOOLEAN"
        case inspect.StrType() | inspect.DictType():
            return "STRING"
        case inspect.UnionType():
            return _read_type(_without_none(field))
        case inspect.VarTupleType():
            return f"ARRAY<{_read_type(field.item_type)}>"
        case inspect.StructType(array_like=True) | inspect.TupleType():
            return "ARRAY<STRING>"
        case _:
            raise AssertionError(f"no Spark type is known for {field}; add it to this module")


def _converted(field: _FieldType, value: str) -> str:
    """Return SQL that converts a value of the type `_read_type` to the field's type."""
    match field:
        case inspect.VarTupleType(item_type=inspect.StructType(array_like=True) as item):
            parts = (
                f"'{part.encode_name}', {_or_default(_from_text(part.type, f'get(e, {place})'), part)}"
                for place, part in enumerate(item.fields)
            )
            return f"transform({value}, e -> named_struct({', '.join(parts)}))"
        case inspect.VarTupleType(item_type=inspect.TupleType() as item):
            parts = (
                f"'_{place}', {_from_text(part, f'get(e, {place})')}" for place, part in enumerate(item.item_types)
            )
            return f"transform({value}, e -> named_struct({', '.join(parts)}))"
        case _:
            return value


def _from_text(field: _FieldType, text: str) -> str:
    match field:
        case inspect.StrType():
            return text
        case inspect.VarTupleType():
            return f"from_json({text}, '{_read_type(field)}')"
        case _:
            return f"try_cast({text} AS {_read_type(field)})"


def _or_default(value: str, field: inspect.Field) -> str:
    match field.default:
        case msgspec.NODEFAULT | None:
            return value
        case bool() as default:
            return f"coalesce({value}, {_sql(default)})"
        case int() | float() as default:
            return f"coalesce({value}, {default!r})"
        case str() as default:
            return f"coalesce({value}, '{default}')"
        case ():
            return f"coalesce({value}, array())"
        case default:
            raise AssertionError(f"no SQL is known for the default {default!r} of {field.name}; add it to this module")


def _kind(field: _FieldType) -> str:
    match field:
        case inspect.UnionType():
            return _kind(_without_none(field))
        case inspect.DictType():
            return "OBJECT"
        case inspect.VarTupleType() | inspect.TupleType() | inspect.StructType(array_like=True):
            return "ARRAY"
        case _:
            return _read_type(field)


def _nullable(field: _FieldType) -> bool:
    return isinstance(field, inspect.UnionType) and field.includes_none


def _without_none(field: inspect.UnionType) -> _FieldType:
    types = [each for each in field.types if not isinstance(each, inspect.NoneType)]
    assert len(types) == 1, f"a field of several types, {types}, has no Spark type"
    return types[0]


def _sql(truth: bool) -> str:
    return "true" if truth else "false"
