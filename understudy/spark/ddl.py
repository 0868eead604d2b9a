"""Writes Arrow schemas as the text in which Spark takes schemas."""

from __future__ import annotations

import pyarrow as pa


def ddl(schema: pa.Schema) -> str:
    """Return the columns of `schema` as Spark's DDL."""
    return ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)


def _type(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"ARRAY<{_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"STRUCT<{', '.join(f'`{field.name}`: {_type(field.type)}' for field in arrow)}>"
    return _SCALARS[arrow]


_SCALARS = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "STRING"}
