"""Columns hold what the structs hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.columns import (
    RUN_TABLES,
    IntegerTooLarge,
    column,
    fits,
    record_schema,
    record_table,
    run_table,
    table_schema,
    time_columns,
)
from understudy.history.lake.parts import described_schema, folders
from understudy.history.metrics.metric_tables import TABLES, Reign
from understudy.history.metrics.metrics import measure_records
from understudy.history.reading.lines import LineDecoder
from understudy.history.reading.missing import NO_LOG, NO_RECORDS, MissingRecords
from understudy.history.reading.reader import read_lines
from understudy.history.reading.run_builder import run_records_of

SAMPLES = sorted((Path(__file__).parents[3] / "foundation" / "eventlog" / "samples").iterdir())


def lines_of(files: list[Path]) -> list[bytes]:
    return [line for file in files for line in file.read_bytes().split(b"\n") if line]


def test_every_record_type_has_columns_with_different_names() -> None:
    for name in PAYLOAD_BY_TYPE:
        names = record_schema(name).names
        assert len(set(names)) == len(names), name
    assert record_schema("RequestSent").names[:11] == [
        "run", "node", "incarnation", "seq", "mono_ms", "wall_ms", "cause", "zxid", "controller_epoch", "to", "api",
    ]  # fmt: skip
    assert "data_controller_epoch" in record_schema("RequestSent").names


def test_every_metric_table_has_columns() -> None:
    for name, struct in RUN_TABLES.items():
        assert table_schema(name).names == ["run", *struct.__struct_fields__, *time_columns(name)]
    assert time_columns("totals") == {"started_at": "started_ms", "ended_at": "ended_at_ms"}
    assert list(time_columns("reigns")) == ["elected_at", "ready_at", "ended_at", "noticed_at"]
    assert time_columns("moments") == {"at": "at_ms"}
    assert time_columns("settings") == time_columns("findings") == {}


def test_times_of_a_run_are_timestamps_in_utc() -> None:
    started = 1_700_000_000_000.25
    reign = Reign(
        epoch=1, broker=1, node="broker-1", incarnation=1, elected_at_ms=1.001, ready_at_ms=None, ended_at_ms=2e20,
        ended_by="", by_fault=False, noticed_at_ms=86_400_000.0, noticed_by="",
    )  # fmt: skip
    (row,) = run_table("reigns", [("run-1", reign)], {"run-1": started}).to_pylist()
    assert row["elected_at"] == datetime(2023, 11, 14, 22, 13, 20, 1251, UTC)
    assert row["noticed_at"] == datetime(2023, 11, 15, 22, 13, 20, 250, UTC)
    assert row["ready_at"] is None
    assert row["ended_at"] is None, "no calendar has such a time"


def test_columns_have_their_meanings_as_comments() -> None:
    comments = {
        field.name: field.metadata[b"comment"].decode() for field in described_schema("tables/reigns") if field.metadata
    }
    assert comments["epoch"] == "Its controller epoch."
    assert comments["elected_at"] == "`elected_at_ms` as a time in UTC, by the wall clock of the run's first record."
    assert comments["ingest"].startswith("The ingest that wrote the row; it counts if")
    for folder in folders():
        lacking = [field.name for field in described_schema(folder) if not field.metadata]
        assert not lacking, folder


def test_tables_of_a_run_with_missing_records_and_several_clocks_hold_what_their_rows_hold() -> None:
    lines = {file: found for file, found in killed_controller().lines.items() if not file.startswith("broker-2")}
    run = run_records_of(read_lines(lines).records)
    missing = [
        MissingRecords(0, run.signs.last_us, "broker-2", 0, NO_LOG, "broker-1 names it", "broker-1/1#3"),
        MissingRecords(100, 200, "broker-3", 1, NO_RECORDS, "numbers 4 to 6 are missing", "broker-3/1#7"),
    ]
    metrics = measure_records("run-1", run, missing)
    for name, kind in TABLES.items():
        content = getattr(metrics, name)
        found = content if isinstance(content, tuple) else (content,)
        read = run_table(name, [("run-1", row) for row in found], {"run-1": metrics.totals.started_ms})
        read = read.drop_columns(["run", *time_columns(name)]).to_pylist()
        assert msgspec.convert(read, tuple[kind, ...]) == found  # type: ignore[valid-type]  # a value
    assert metrics.totals.doubt
    assert (len(metrics.missing), len(metrics.clocks)) == (2, 4)


@pytest.fixture(scope="module")
def lines_of_type() -> dict[str, list[bytes]]:
    """Lines of every type of record, by type."""
    lines = lines_of(SAMPLES)
    lines += [
        line.rstrip()
        for seed in range(20)
        for file in RandomRun(seed, records=300).logs.lines.values()
        for line in file
    ]
    lines += [line.rstrip() for file in killed_controller().lines.values() for line in file]
    decoder = LineDecoder(())
    found: dict[str, list[bytes]] = {}
    for line in lines:
        found.setdefault(decoder.decode(line).type, []).append(line)
    return found


@pytest.mark.parametrize("name", sorted(PAYLOAD_BY_TYPE))
def test_a_table_of_records_holds_what_the_records_hold(name: str, lines_of_type: dict[str, list[bytes]]) -> None:
    """The rows of the table, as JSON, are the payloads as JSON with names in place of positions."""
    decoder = LineDecoder([name])
    envelopes = [found.envelope for found in map(decoder.decode, lines_of_type.get(name, ())) if not found.flaw]
    assert envelopes, f"no line has a {name}: nothing was compared"
    table = record_table(name, envelopes)
    assert table.schema == record_schema(name)
    for row, envelope in zip(table.to_pylist(), envelopes, strict=True):
        envelope_columns = list(row)[:9]
        assert [row[column] for column in envelope_columns] == [
            getattr(envelope, column) for column in envelope_columns
        ]
        fields = type(envelope.data).__struct_fields__
        wall_at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=round(envelope.wall_ms * 1000))
        assert row.pop("wall_at") == wall_at
        values = [row[column] for column in list(row)[9:]]
        assert values == [named(getattr(envelope.data, field)) for field in fields]


def named(value: object) -> object:
    """Return a value of a payload as `to_pylist` returns it."""
    match value:
        case dict():
            return msgspec.json.encode(value).decode()
        case msgspec.Struct():
            return {name: named(getattr(value, name)) for name in value.__struct_fields__}
        case tuple() if any(isinstance(item, tuple) for item in value):
            return [{f"_{place}": part for place, part in enumerate(item)} for item in value if isinstance(item, tuple)]
        case tuple():
            return [named(item) for item in value]
        case _:
            return value


def test_a_number_of_more_than_64_bits_is_refused() -> None:
    assert column([2**63 - 1, -(2**63), None], pa.int64()).null_count == 1
    for number in (2**63, -(2**63) - 1, 10**400):
        assert not fits(((1, number),))
        with pytest.raises(IntegerTooLarge):
            column([number], pa.int64())
