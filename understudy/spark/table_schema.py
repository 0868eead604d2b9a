"""Derives Spark's schema of a metric table from its struct, as text."""

from __future__ import annotations

from msgspec import inspect

from understudy.history.metrics.metric_tables import Table


def table_schema(table: type[Table]) -> str:
    """Return the columns of a table in Spark's DDL; the first is the id of the run."""
    info = inspect.type_info(table)
    assert isinstance(info, inspect.StructType)
    columns = (f"`{field.encode_name}` {_spark_type(field.type)}" for field in info.fields)
    return ", ".join(("run STRING", *columns))


def _spark_type(field: inspect.Type) -> str:
    match field:
        case inspect.IntType():
            return "BIGINT"
        case inspect.FloatType():
            return "DOUBLE"
        case inspect.BoolType():
            return "BOOLEAN"
        case inspect.StrType():
            return "STRING"
        case inspect.VarTupleType(item_type=item):
            return f"ARRAY<{_spark_type(item)}>"
        case inspect.UnionType(types=types):
            (only,) = (each for each in types if not isinstance(each, inspect.NoneType))
            return _spark_type(only)
        case _:
            raise AssertionError(f"no Spark type is known for {field}; add it to this module")
