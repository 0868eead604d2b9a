"""Derives Arrow types from msgspec structs, and builds Arrow columns from lists of structs.

The lake's Parquet files and Spark's data source share this mapping: whole numbers are int64, tuples are lists, structs
written as arrays are lists of structs, and dictionaries are JSON text. A tuple of several types is a struct whose
fields are `_0`, `_1` and so on. After the columns of a struct come its times as timestamps in UTC: `lost_at` beside the
milliseconds of `lost_at_ms`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import inspect

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload
from understudy.history.metrics.metric_tables import TABLES
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.reading.findings import LogFinding

RUN = pa.field("run", pa.string())

ENVELOPE_FIELDS: tuple[pa.Field, ...] = (
    RUN,
    pa.field("node", pa.string()),
    pa.field("incarnation", pa.int64()),
    pa.field("seq", pa.int64()),
    pa.field("mono_ms", pa.float64()),
    pa.field("wall_ms", pa.float64()),
    pa.field("cause", pa.int64()),
    pa.field("zxid", pa.int64()),
    pa.field("controller_epoch", pa.int64()),
)
"""Columns before the payload's columns in a table of records: the envelope without its version and its type."""


INGEST = pa.field("ingest", pa.string())
"""Column of every table of a lake, after the others: the ingest that has written the row (`runs_table`)."""

_TIME = pa.timestamp("us", tz="UTC")
_WALL_AT = pa.field("wall_at", _TIME)
_STARTED = "started_ms"
"""Column of milliseconds since 1970; other columns of `_TIMES` count from the beginning of their run."""
_TIMES = re.compile("(.*_)?at_ms")

TOTALS = "totals"
"""The table with a row for each run, which says whether the run is complete."""
MISSING = "missing"
FINDINGS = "findings"
RUN_TABLES: dict[str, type[msgspec.Struct]] = {**TABLES, **ROW_TABLES, FINDINGS: LogFinding}
"""All tables with rows of runs, by name: those that are computed from records, and the damage to the logs."""

_WITHIN = "_within_ms"
_WITHOUT_DOUBT: dict[str, Any] = {"doubt": (), "is_complete": True}
"""Columns of a complete run that SQL leaves out, besides `_WITHIN`."""

_ENVELOPE_NAMES = frozenset(field.name for field in ENVELOPE_FIELDS)

_MAX_TIME_MS = 2.0**46
"""Milliseconds of some 2,200 years: the sum of two still has a year of four digits, which Python needs."""
_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


class IntegerTooLarge(Exception):
    """A whole number needs more than the 64 bits that an Arrow column has."""


# ------------------------------------------------------------------ types


def arrow_type(field: inspect.Type) -> pa.DataType:
    """Return the Arrow type of one field of a struct."""
    match field:
        case inspect.IntType():
            return pa.int64()
        case inspect.FloatType():
            return pa.float64()
        case inspect.BoolType():
            return pa.bool_()
        case inspect.StrType() | inspect.DictType():
            return pa.string()
        case inspect.UnionType():
            return arrow_type(_without_none(field))
        case inspect.VarTupleType():
            # Spark calls the items of a list `element`, as Parquet does.
            return pa.list_(pa.field("element", arrow_type(field.item_type)))
        case inspect.StructType() | inspect.TupleType():
            return pa.struct([pa.field(name, arrow_type(item)) for name, item in _parts(field)])
        case _:
            raise AssertionError(f"no Arrow type is known for {field}; add it to this module")


@cache
def struct_type(struct: type[msgspec.Struct]) -> pa.StructType:
    """Return the Arrow type of a struct, with the names that its fields have in JSON; a record's `data` is one."""
    return arrow_type(_info(struct))


@cache
def record_schema(name: str) -> pa.Schema:
    """Return the schema of the table of one record type: the envelope, the fields of the payload, and `wall_at`.

    A field of the payload with the name of an envelope column gets the prefix `data_`, for example
    `data_controller_epoch`.
    """
    payload = (field.with_name(payload_column_name(field.name)) for field in struct_type(PAYLOAD_BY_TYPE[name]))
    return pa.schema([*ENVELOPE_FIELDS, *payload, _WALL_AT])


@cache
def table_schema(name: str) -> pa.Schema:
    """Return the schema of one of `RUN_TABLES`: `run`, the fields of its struct, and the times as timestamps."""
    return pa.schema([RUN, *struct_type(RUN_TABLES[name]), *(pa.field(time, _TIME) for time in time_columns(name))])


@cache
def time_columns(name: str) -> dict[str, str]:
    """Return the columns of timestamps in one of `RUN_TABLES`, each with the column of milliseconds that it repeats."""
    fields = RUN_TABLES[name].__struct_fields__
    times = {field.removesuffix("_ms"): field for field in fields if _TIMES.fullmatch(field)}
    return {"started_at": _STARTED, **times} if _STARTED in fields else times


def payload_column_name(field: str) -> str:
    """Return the column of a field of a payload."""
    return f"data_{field}" if field in _ENVELOPE_NAMES else field


@cache
def _info(struct: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return info


def _without_none(field: inspect.UnionType) -> inspect.Type:
    types = [each for each in field.types if not isinstance(each, inspect.NoneType)]
    assert len(types) == 1, f"a field of several types, {types}, has no Arrow type"
    return types[0]


def _parts(field: inspect.StructType | inspect.TupleType) -> list[tuple[str, inspect.Type]]:
    if isinstance(field, inspect.TupleType):
        return [(f"_{place}", item) for place, item in enumerate(field.item_types)]
    return [(part.encode_name, part.type) for part in field.fields]


# ------------------------------------------------------------------ values


def record_table(name: str, envelopes: Sequence[Any]) -> pa.Table:
    """Return the rows of the table of one record type.

    Args:
        envelopes: objects with the fields of an `Envelope`, whose `data` is a payload of this type.

    Raises:
        IntegerTooLarge: a number of a record has more than 64 bits; `fits` finds the record.
    """
    columns = [column(list(map(attrgetter(field.name), envelopes)), field.type) for field in ENVELOPE_FIELDS]
    columns += payload_columns(PAYLOAD_BY_TYPE[name], list(map(attrgetter("data"), envelopes)))
    columns.append(_timestamps(_micros(columns[record_schema(name).get_field_index("wall_ms")])))
    return pa.Table.from_arrays(columns, schema=record_schema(name))


def run_table(name: str, rows: Sequence[tuple[str, msgspec.Struct]], started_ms: Mapping[str, float]) -> pa.Table:
    """Return (run, row) pairs as the table `name`.

    Args:
        started_ms: the beginning of each run, as in `Totals`, for the timestamps.

    Raises:
        IntegerTooLarge: a number of a row has more than 64 bits; `fits` finds the row.
    """
    columns = [pa.array([run for run, _ in rows], pa.string())]
    columns += _struct_columns(_info(RUN_TABLES[name]), [row for _, row in rows])
    return _with_times(name, columns, [started_ms[run] for run, _ in rows] if time_columns(name) else ())


def completed(name: str, rows: pa.Table, started_ms: float) -> pa.Table:
    """Return rows of a run that SQL has computed as rows of the table `name`: with the columns that SQL leaves out.

    The run is complete and has one clock. So no column is in doubt, and no clock allows a time to be wrong.

    Args:
        started_ms: the beginning of the run, as in `Totals`.
    """
    columns = [rows[RUN.name].combine_chunks()]
    columns += [_completed(field, rows) for field in struct_type(RUN_TABLES[name])]
    return _with_times(name, columns, [started_ms] * rows.num_rows)


def _completed(field: pa.Field, rows: pa.Table) -> pa.Array:
    if field.name in rows.column_names:
        return rows[field.name].combine_chunks().cast(field.type)
    if field.name.endswith(_WITHIN):
        time = rows[f"{field.name.removesuffix(_WITHIN)}_ms"].combine_chunks()
        return pc.if_else(time.is_valid(), 0.0, pa.scalar(None, pa.float64()))
    return pa.array([_WITHOUT_DOUBT[field.name]] * rows.num_rows, field.type)


def _with_times(name: str, columns: list[pa.Array], started_ms: Sequence[float]) -> pa.Table:
    """Return the columns of a table with the timestamps after them."""
    schema = table_schema(name)
    if times := time_columns(name):
        began = _micros(pa.array(started_ms, pa.float64()))
        for milliseconds in times.values():
            micros = _micros(columns[schema.get_field_index(milliseconds)])
            columns.append(_timestamps(micros if milliseconds == _STARTED else pc.add(began, micros)))
    return pa.Table.from_arrays(columns, schema=schema)


def _micros(milliseconds: pa.Array) -> pa.Array:
    """Return whole microseconds; null for what no timestamp can be."""
    possible = pc.less(pc.abs(milliseconds), _MAX_TIME_MS)
    return pc.round(pc.multiply(pc.if_else(possible, milliseconds, None), 1000.0)).cast(pa.int64())


def _timestamps(micros: pa.Array) -> pa.Array:
    return micros.cast(_TIME)


def without_pairs(rows: pa.Table, pairs: Collection[tuple[str, str]]) -> pa.Table:
    """Return the rows whose run and ingest are none of `pairs`."""
    if not pairs:
        return rows
    keys = pc.binary_join_element_wise(rows[RUN.name], rows[INGEST.name], "\0")
    return rows.filter(pc.invert(pc.is_in(keys, value_set=pa.array(["\0".join(each) for each in pairs], pa.string()))))


def payload_columns(payload: type[Payload], payloads: Sequence[Payload]) -> list[pa.Array]:
    """Return one column for each field of a record type.

    Raises:
        IntegerTooLarge: a number has more than 64 bits.
    """
    return _struct_columns(_info(payload), payloads)


def column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return scalars as a column.

    Raises:
        IntegerTooLarge: a number has more than 64 bits.
    """
    try:
        return pa.array(values, type_)
    except (OverflowError, pa.ArrowInvalid) as error:
        raise IntegerTooLarge(str(error)) from None


def fits(value: object) -> bool:
    """Return whether all whole numbers in a struct, a tuple or a scalar have at most 64 bits."""
    match value:
        case bool():
            return True
        case int():
            return _MIN_INT64 <= value <= _MAX_INT64
        case tuple():
            return all(map(fits, value))
        case msgspec.Struct():
            return all(fits(getattr(value, name)) for name in value.__struct_fields__)
        case _:
            return True


def _struct_columns(info: inspect.StructType, structs: Sequence[object]) -> list[pa.Array]:
    return [_column(list(map(attrgetter(field.name), structs)), field.type) for field in info.fields]


def _column(values: Sequence[Any], field: inspect.Type) -> pa.Array:
    match field:
        case inspect.UnionType():
            return _column(values, _without_none(field))
        case inspect.DictType():
            texts = (None if value is None else msgspec.json.encode(value).decode() for value in values)
            return pa.array(list(texts), pa.string())
        case inspect.VarTupleType(item_type=(inspect.StructType() | inspect.TupleType()) as item):
            items = [each for value in values if value is not None for each in value]
            return pa.ListArray.from_arrays(_list_offsets(values), _structs(items, item), type=arrow_type(field))
        case inspect.StructType() | inspect.TupleType():
            return _structs(values, field)
        case _:
            return column(values, arrow_type(field))


def _list_offsets(values: Iterable[Sequence[object] | None]) -> pa.Array:
    """Return the offset of each list and of the end; null for a list that is null."""
    values = list(values)
    ends = list(accumulate((len(value) if value is not None else 0 for value in values), initial=0))
    begins = [None if value is None else begin for value, begin in zip(values, ends, strict=False)]
    return pa.array([*begins, ends[-1]], pa.int32())


def _structs(values: Sequence[Any], field: inspect.StructType | inspect.TupleType) -> pa.StructArray:
    if isinstance(field, inspect.StructType):
        columns = _struct_columns(field, values)
    else:
        columns = [_column(list(map(itemgetter(place), values)), item) for place, item in enumerate(field.item_types)]
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(field)))
