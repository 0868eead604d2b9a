"""Writes Arrow schemas as the text in which Spark takes schemas."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from understudy.history.lake.columns import table_schema
from understudy.history.lake.comments import table_comments


def ddl(schema: pa.Schema, comments: Mapping[str, str] | None = None) -> str:
    """Return the columns of `schema` as Spark's DDL.

    Args:
        comments: the comments of columns, by name.
    """
    return ", ".join(f"`{field.name}` {_type(field.type)}{_comment(comments, field.name)}" for field in schema)


def table_ddl(name: str) -> str:
    """Return the columns of one of `RUN_TABLES` with their meanings as comments."""
    return ddl(table_schema(name), table_comments(name))


def _comment(comments: Mapping[str, str] | None, column: str) -> str:
    if not comments or column not in comments:
        return ""
    text = comments[column].replace("\\", "\\\\").replace("'", "\\'")
    return f" COMMENT '{text}'"


def _type(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"ARRAY<{_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"STRUCT<{', '.join(f'`{field.name}`: {_type(field.type)}' for field in arrow)}>"
    return _SCALARS[arrow]


_SCALARS = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}
