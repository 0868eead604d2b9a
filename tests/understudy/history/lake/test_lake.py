"""A lake holds what its runs' logs hold, whatever is ingested again, grows, or is removed."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.foundation.eventlog.lines import by_run
from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.history.lake.damaged_logs import write, write_damaged
from tests.understudy.history.lake.lakes import (
    assert_counts_once,
    assert_holds,
    content,
    counted_files,
    files_below,
    rows_below,
    take,
    write_runs,
)
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake import delta, parts, record_rows, runs_to_parts, writer
from understudy.history.lake import ingest as ingesting
from understudy.history.lake.columns import RUN_TABLES, time_columns
from understudy.history.lake.errors import EarlierLake, LakeError, LaterLake, NotALake
from understudy.history.lake.ingest import NothingToIngest, remove
from understudy.history.lake.lake import Lake
from understudy.history.lake.writer import LakeWriter, UnknownRun
from understudy.history.metrics import row_tables
from understudy.history.metrics.metric_tables import TABLES, RunMetrics
from understudy.history.metrics.metrics import measure
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.reading import findings, reader
from understudy.history.reading.run_builder import run_records_of
from understudy.history.report.replay import read_and_measure
from understudy.history.report.runs import RunFiles


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of five runs."""
    return write_runs(tmp_path / "runs", 4, records=150)


def test_a_lake_holds_what_the_logs_hold(runs: Path, tmp_path: Path) -> None:
    result = take(tmp_path / "lake", runs)
    assert sorted(result.added) == ["random-0", "random-1", "random-2", "random-3", "run-1"]
    assert (result.replaced, result.unchanged, result.refused, result.skipped) == ([], [], [], [])
    assert result.version == Lake(tmp_path / "lake").version
    assert_holds(tmp_path / "lake", runs)
    opened = Lake(tmp_path / "lake")
    assert set(opened.tables) == {name for name in RUN_TABLES if opened.read(name, incomplete=True).num_rows}
    assert result.records == sum(opened.read(name, incomplete=True).num_rows for name in opened.record_types)


def test_metrics_equal_those_of_the_reference(runs: Path, tmp_path: Path) -> None:
    """`measure` computes them from the records in memory, without files or kernel."""
    take(tmp_path / "lake", runs)
    expected = [measure(run, records) for run, records in by_run(reader.read([runs]).records).items()]
    assert sorted(Lake(tmp_path / "lake").run_metrics(incomplete=True), key=lambda found: found.run) == expected


def test_rows_of_requests_leaderships_events_and_faults_equal_those_of_the_records(runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs)
    found_runs = by_run(reader.read([runs]).records)
    records = {run: run_records_of(found) for run, found in found_runs.items()}
    for name in ROW_TABLES:
        found = Lake(tmp_path / "lake").read(name, incomplete=True).to_pylist()
        expected = [
            {"run": run} | msgspec.to_builtins(row) for run in records for row in row_tables.rows(name, records[run])
        ]
        assert expected, f"no run has rows in {name}: nothing was compared"
        listed = [as_lists(row) for row in expected]
        times = time_columns(name)
        found = [{column: value for column, value in row.items() if column not in times} for row in found]
        assert sorted(found, key=lambda row: str(row["run"])) == sorted(listed, key=lambda row: str(row["run"]))


def as_lists(row: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}


def test_damaged_logs_are_ingested_with_their_findings(tmp_path: Path) -> None:
    write_damaged(tmp_path / "run")
    result = take(tmp_path / "lake", tmp_path / "run")
    assert result.added == ["run-1"]
    assert [Path(file).name for file in result.skipped] == ["broker-3-0009-0001.jsonl", "broker-3-0010-0001.jsonl"]
    for file in result.skipped:
        Path(file).unlink()
    assert_holds(tmp_path / "lake", tmp_path / "run")
    assert {found.kind for found in Lake(tmp_path / "lake").findings()} >= {
        findings.TORN_LINE,
        findings.GAP,
        findings.REPEAT,
    }


def test_ingesting_again_changes_nothing(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs)
    before, files, version = content(lake), files_below(lake), Lake(lake).version
    result = take(lake, runs)
    assert (len(result.unchanged), result.added, result.replaced, result.version) == (5, [], [], version)
    shutil.move(runs, tmp_path / "moved")
    assert len(take(lake, tmp_path / "moved").unchanged) == 5
    assert (content(lake), files_below(lake)) == (before, files)


def test_a_run_that_has_grown_is_replaced_and_others_are_kept(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    logs = sorted((runs / "random-2").iterdir())
    whole = {log: log.read_bytes() for log in logs}
    *others, last = logs
    last.unlink()
    longest = max(others, key=lambda log: len(whole[log].splitlines()))
    longest.write_bytes(whole[longest][: len(whole[longest]) // 2])
    take(lake, runs)
    assert_holds(lake, runs)
    for log, text in whole.items():
        log.write_bytes(text)
    result = take(lake, runs)
    assert (result.replaced, len(result.unchanged)) == (["random-2"], 4)
    assert_holds(lake, runs)
    assert_counts_once(lake)


def test_files_of_a_run_may_be_given_one_after_the_other(runs: Path, tmp_path: Path) -> None:
    for log in sorted((runs / "killed").iterdir()):
        take(tmp_path / "lake", log)
    assert_holds(tmp_path / "lake", runs / "killed")


def test_a_version_is_read_until_its_files_are_deleted(runs: Path, tmp_path: Path) -> None:
    """A query that began before a change can read its files; `vacuum` deletes them."""
    lake = tmp_path / "lake"
    log = runs / "killed" / "testbed-0001-0001.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[: whole.index(b"\n") + 1])
    take(lake, runs / "killed")
    old = Lake(lake)
    before = content(lake)
    log.write_bytes(whole)
    take(lake, runs / "killed")
    assert content(lake) != before
    for opened in (old, Lake(lake, old.version)):
        rows = {name: opened.read(name, incomplete=True).to_pylist() for name in (*opened.tables, *opened.record_types)}
        assert rows == before
    assert not counted_files(old) & counted_files(Lake(lake))
    assert LakeWriter(lake).vacuum(kept_hours=1) == 0
    assert LakeWriter(lake).vacuum(kept_hours=0) >= len(counted_files(old))
    assert_holds(lake, runs / "killed")
    with pytest.raises(LakeError, match="has been deleted since the lake was opened; open it again"):
        old.read("failovers", incomplete=True)
    with pytest.raises(LakeError, match=rf"{lake} has no version 99; `understudy lake history {lake}` lists them"):
        Lake(lake, 99)


def test_old_files_are_deleted_without_a_word_once_an_hour(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = tmp_path / "lake"
    vacuums: list[bool] = []
    vacuum = delta.vacuum

    def counted(table: DeltaTable, hours: int, *, unknown: bool) -> int:
        vacuums.append(unknown)
        return vacuum(table, hours, unknown=unknown)

    monkeypatch.setattr(delta, "vacuum", counted)
    take(lake, runs / "killed")
    assert not vacuums
    monkeypatch.setattr(writer, "_VACUUM_EVERY_MS", 0)
    take(lake, runs / "random-1")
    assert len(vacuums) == 2 * (1 + len(Lake(lake).tables) + len(Lake(lake).record_types))


def test_removed_runs_leave_no_row_and_no_file(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs)
    version = Lake(lake).version
    assert remove(["random-1", "random-3"], lake) > version
    shutil.rmtree(runs / "random-1")
    shutil.rmtree(runs / "random-3")
    assert_holds(lake, runs)
    assert_counts_once(lake)
    for path in rows_below(lake):
        assert not {"random-1", "random-3"} & set(pq.read_table(path)["run"].to_pylist())
    with pytest.raises(UnknownRun, match=r"has no run 'random-3'; it has 3 others"):
        remove(["run-1", "random-3"], lake)
    remove(["run-1", "random-0", "random-2"], lake)
    assert rows_below(lake) == set()
    assert list(Lake(lake).run_metrics(incomplete=True)) == []
    assert Lake(lake).tables == Lake(lake).record_types == ()
    take(lake, runs / "killed")
    assert_holds(lake, runs / "killed")


def test_small_files_are_merged(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for folder in sorted(runs.iterdir()):
        take(lake, folder)
    for seed in range(4, 8):
        take(lake, write(RandomRun(seed, records=50).logs, runs / f"random-{seed}"))
    assert_holds(lake, runs)
    assert_counts_once(lake)
    assert len(Lake(lake).files("tables", "totals")) < writer.SMALL_FILES
    assert not LakeWriter(lake).compact()


@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("megabytes", [1, 50, 400, 30_000])
def test_tasks_have_about_the_same_size_and_are_as_many_for_each_core(cores: int, megabytes: int) -> None:
    generator = random.Random(megabytes)
    sizes = [generator.randint(1, 2 * megabytes * 1000) for _ in range(1000)]
    groups = [RunFiles(f"run-{number}", (), size) for number, size in enumerate(sizes)]
    tasks = ingesting._tasks(groups, cores)
    assert sorted(group for task in tasks for group in task) == sorted(groups)
    assert len(tasks) % cores == 0
    in_tasks = [sum(group.bytes for group in task) for task in tasks]
    assert max(in_tasks) - min(in_tasks) <= max(sizes)
    assert in_tasks == sorted(in_tasks, reverse=True)
    if len(tasks) > cores:
        assert ingesting._MIN_TASK_BYTES / 2 <= max(in_tasks) <= 1.5 * ingesting._MAX_TASK_BYTES


def test_no_task_is_empty() -> None:
    groups = [RunFiles(f"run-{number}", (), 10**9) for number in range(3)]
    assert sorted(map(len, ingesting._tasks(groups, 8))) == [1, 1, 1]


# ------------------------------------------------------------------ refusals


def test_a_run_id_of_two_runs_is_refused(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs / "random-1")
    before = content(lake)
    other = RandomRun(99, records=150).logs
    folder = tmp_path / "other"
    folder.mkdir()
    for name, lines in other.lines.items():
        (folder / name).write_bytes(b"".join(lines).replace(b"random-99", b"random-1"))
    (refusal,) = take(lake, folder).refused
    assert refusal.run == "random-1"
    assert "run id 'random-1' is used by different runs: " in refusal.why
    assert "remove the run from the lake first" in refusal.why
    (refusal,) = take(tmp_path / "new", folder, runs).refused
    assert "run id 'random-1' is used by different runs: " in refusal.why
    assert content(lake) == before
    assert "random-1" not in Lake(tmp_path / "new").runs


def test_a_shortened_or_missing_file_is_refused(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs)
    log = runs / "killed" / "broker-2-0001-0001.jsonl"
    text = log.read_bytes()
    log.write_bytes(text[:-1])
    (refusal,) = take(lake, runs).refused
    assert f"{log} does not continue the one of this name in the lake" in refusal.why
    log.unlink()
    (refusal,) = take(lake, runs).refused
    assert f"{log}, which is in the lake, was not given and is gone; give all files of run 'run-1'" in refusal.why
    log.write_bytes(text)
    assert take(lake, runs).refused == []
    assert_holds(lake, runs)


def test_a_copy_of_a_file_is_repeats(runs: Path, tmp_path: Path) -> None:
    log = runs / "killed" / "broker-2-0001-0001.jsonl"
    (runs / "copy").mkdir()
    shutil.copy(log, runs / "copy")
    assert take(tmp_path / "lake", runs).refused == []
    assert_holds(tmp_path / "lake", runs)
    assert {found.kind for found in Lake(tmp_path / "lake").findings()} == {findings.REPEAT}
    assert len(take(tmp_path / "lake", runs).unchanged) == 5


def test_a_file_with_records_of_two_runs_is_refused_with_both(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    mixed = runs / "killed" / "broker-2-0001-0001.jsonl"
    foreign = (runs / "random-1" / "broker-2-0001-0001.jsonl").read_bytes()
    mixed.write_bytes(mixed.read_bytes() + foreign)
    result = take(lake, runs)
    why = {refusal.run: refusal.why for refusal in result.refused}
    assert why.keys() == {"run-1", "random-1"}
    assert "has records of random-1 too; give the logs of each run apart" in why["run-1"]
    assert why["random-1"] == "other records of it are in the logs of run 'run-1'"
    assert sorted(result.added) == sorted(Lake(lake).runs) == ["random-0", "random-2", "random-3"]


def test_numbers_of_more_than_64_bits_are_findings(tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path / "run")
    log = folder / "broker-1-0001-0001.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[0] = lines[0].replace(b'"zxid":0', b'"zxid":%d' % 2**63)
    lines[1] = lines[1].replace(b'"session_id":1', b'"session_id":%d' % 2**70)
    log.write_bytes(b"".join(lines))
    take(tmp_path / "lake", folder)
    opened = Lake(tmp_path / "lake")
    assert [(found.line, found.kind, found.what) for found in opened.findings()] == [
        (1, record_rows.NUMBER_TOO_LARGE, "ProcessStarted"),
        (2, record_rows.NUMBER_TOO_LARGE, "BrokerRegistered"),
    ]
    assert opened.read("BrokerRegistered", incomplete=True).num_rows == 3
    assert [metrics.run for metrics in opened.run_metrics(incomplete=True)] == ["run-1"]


def test_a_file_that_grows_while_it_is_read_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(killed_controller(), tmp_path / "run")
    log = folder / "testbed-0001-0001.jsonl"
    size = log.stat().st_size

    def measure_and_grow(group: Any) -> Any:
        measured = read_and_measure(group)
        with log.open("ab") as stream:
            stream.write(b"{")
        return measured

    monkeypatch.setattr("understudy.history.lake.runs_to_parts.read_and_measure", measure_and_grow)
    take(tmp_path / "lake", folder)
    assert [found.kind for found in Lake(tmp_path / "lake").findings() if found.file == str(log)] == [
        runs_to_parts.GROWING_FILE, findings.TORN_LINE,
    ]  # fmt: skip
    monkeypatch.undo()
    log.write_bytes(log.read_bytes()[:size])
    assert [refusal.run for refusal in take(tmp_path / "lake", folder).refused] == ["run-1"]


@pytest.mark.parametrize("name", ["notes.txt", "manifest.txt", ".hidden"])
def test_a_folder_with_something_else_is_no_lake(runs: Path, tmp_path: Path, name: str) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    (lake / name).touch()
    with pytest.raises(NotALake, match=f"is not a lake: it holds {name} and no table runs; give a new folder"):
        take(lake, runs)
    assert [path.name for path in lake.iterdir()] == [name]
    with pytest.raises(NotALake, match="it has no table runs; `understudy ingest RUN --lake"):
        Lake(lake)
    with pytest.raises(NotALake, match=f"{name} is a file; give a folder"):
        take(lake / name, runs)


def test_foreign_files_in_a_lake_are_left_alone(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    (lake / "notes.txt").touch()
    (lake / "tables" / "mine").mkdir()
    (lake / "tables" / "mine" / "my-own.parquet").touch()
    take(lake, runs)
    assert (lake / "notes.txt").exists()
    assert (lake / "tables" / "mine" / "my-own.parquet").exists()


def test_a_lake_of_a_later_format_is_refused(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    (path,) = (lake / "runs" / "_delta_log").glob("*0.json")
    path.write_text(path.read_text().replace('"understudy.format":"2"', '"understudy.format":"3"'))
    for use in (lambda: Lake(lake), lambda: take(lake, runs), lambda: remove(["run-1"], lake)):
        with pytest.raises(LaterLake, match="has format 3, and this Understudy knows formats up to 2"):
            use()
    path.write_text("{}")
    with pytest.raises(LakeError, match=r"the Delta table .*runs cannot be read: "):
        Lake(lake)


def test_a_lake_of_the_earlier_format_is_refused_by_name(runs: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    (lake / "manifest").mkdir(parents=True)
    (lake / "manifest" / "0000000001.json").write_text("{}")
    for use in (lambda: Lake(lake), lambda: take(lake, runs), lambda: remove(["run-1"], lake)):
        with pytest.raises(EarlierLake, match="is a lake of an earlier Understudy, before lakes were Delta tables; in"):
            use()


def test_a_folder_of_runs_is_no_unfinished_lake(runs: Path) -> None:
    """An unfinished lake may have an empty folder `runs`."""
    with pytest.raises(NotALake, match="is not a lake: it holds runs and no table runs; give a new folder"):
        take(runs.parent, runs)


def test_no_logs_make_no_lake(tmp_path: Path) -> None:
    with pytest.raises(NothingToIngest, match=r"there are no event-log files at or below .*nowhere: no such file"):
        take(tmp_path / "lake", tmp_path / "nowhere")
    assert not (tmp_path / "lake").exists()


# ------------------------------------------------------------------ schemas of other software


def test_older_parts_have_defaults_in_new_columns(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part is written without some columns and with a struct that lacks a field, as older software would."""
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    opened = Lake(lake)
    for name, dropped in (("RequestSent", ["attempt", "event"]), ("failovers", ["election_ms"])):
        (path,) = opened.files(*opened.folder(name).split("/"))
        pq.write_table(pq.read_table(path).drop_columns(dropped), path)
    (path,) = opened.files("records", "LeadershipWritten")
    table = pq.read_table(path)
    old = pa.list_(pa.struct(list(table.schema.field("partitions").type.value_type)[:-1]))
    place = table.schema.get_field_index("partitions")
    rows = [[{k: v for k, v in state.items() if k != "leader_recovery_state"} for state in states]
            for states in table["partitions"].to_pylist()]  # fmt: skip
    pq.write_table(table.set_column(place, "partitions", pa.array(rows, old)), path)
    assert set(opened.read("RequestSent", incomplete=True)["attempt"].to_pylist()) == {1}
    assert set(opened.read("RequestSent", incomplete=True)["event"].to_pylist()) == {""}
    assert opened.read("failovers", incomplete=True)["election_ms"].to_pylist() == [None]
    (metrics,) = opened.run_metrics(incomplete=True)
    assert metrics.failovers[0].election_ms is None
    assert (
        opened.read("LeadershipWritten", incomplete=True)["partitions"].to_pylist()[0][0]["leader_recovery_state"]
        is None
    )
    (path,) = opened.files("tables", "totals")
    pq.write_table(pq.read_table(path).drop_columns(["records"]), path)
    with pytest.raises(LakeError, match=r"totals of run run-1 was written by other software: .*; ingest the logs of"):
        list(opened.run_metrics(incomplete=True))
    path.unlink()
    with pytest.raises(LakeError, match="has been deleted"):
        list(opened.run_metrics(incomplete=True))


def test_runs_of_older_parts_are_written_again(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    for module in (ingesting, runs_to_parts):
        monkeypatch.setattr(module, "schema_digest", lambda: "older")
    take(lake, runs / "killed", runs / "random-1")
    monkeypatch.undo()
    result = take(lake, runs / "killed", runs / "random-2")
    assert (result.replaced, result.added) == (["run-1"], ["random-2"])
    assert_holds(lake, runs / "killed", runs / "random-1", runs / "random-2")
    assert {run: entry.schema == "older" for run, entry in Lake(lake).runs.items()} == {
        "random-1": True, "random-2": False, "run-1": False,
    }  # fmt: skip


def test_a_table_gets_the_columns_of_later_software(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of earlier software have nothing in them."""
    lake = tmp_path / "lake"

    def earlier(folder: str) -> pa.Schema:
        schema = described(folder)
        if folder == "tables/totals":
            return schema.remove(schema.get_field_index("fence_hits"))
        if folder == "records/LeadershipWritten":
            place = schema.get_field_index("partitions")
            state = pa.struct(list(schema.field(place).type.value_type)[:-1])
            return schema.set(place, pa.field("partitions", pa.list_(pa.field("element", state))))
        return schema

    described = parts.described_schema
    with monkeypatch.context() as before:
        before.setattr(writer, "described_schema", earlier)
        take(lake, runs / "killed")
    assert "fence_hits" not in DeltaTable(str(lake / "tables" / "totals")).schema().to_arrow().names
    take(lake, runs)
    for folder in ("tables/totals", "records/LeadershipWritten"):
        written = pa.schema(DeltaTable(str(lake / folder)).schema().to_arrow())
        assert {field.name: field for field in written} == {field.name: field for field in described(folder)}
    assert_holds(lake, runs)

    def other(folder: str) -> pa.Schema:
        schema = described(folder)
        place = schema.get_field_index("incarnation")
        return schema.set(place, pa.field("incarnation", pa.string())) if place >= 0 else schema

    monkeypatch.setattr(writer, "described_schema", other)
    with pytest.raises(LakeError, match=r"column incarnation of .* has the type int64, and this Understudy writes str"):
        take(lake, write(RandomRun(9, records=50).logs, tmp_path / "random-9"))


def test_parts_with_other_definitions_are_older(monkeypatch: pytest.MonkeyPatch) -> None:
    before = parts.schema_digest()
    parts.schema_digest.cache_clear()
    with monkeypatch.context() as changed:
        changed.setattr(parts, "DEFINITIONS", -1)
        assert parts.schema_digest() != before
        parts.schema_digest.cache_clear()
    assert parts.schema_digest() == before


def test_every_name_has_a_schema_and_unknown_ones_are_named(runs: Path, tmp_path: Path) -> None:
    take(tmp_path / "lake", runs / "killed")
    opened = Lake(tmp_path / "lake")
    for name in (*RUN_TABLES, "findings", *PAYLOAD_BY_TYPE):
        assert opened.read(name, incomplete=True).schema == opened.schema(name)
    with pytest.raises(LakeError, match="there is no table 'failover'; expected one of settings, totals, reigns"):
        opened.read("failover")


def test_the_rows_of_all_metrics_survive_the_way_through_parquet(runs: Path, tmp_path: Path) -> None:
    """Every table has rows in some run, so that each of its columns is compared."""
    take(tmp_path / "lake", runs)
    found: list[RunMetrics] = list(Lake(tmp_path / "lake").run_metrics(incomplete=True))
    assert {name for name in TABLES for metrics in found if getattr(metrics, name)} == set(TABLES)


def test_a_full_disk_is_named(runs: Path, tmp_path: Path) -> None:
    """The operating system refuses files of more than a few bytes, as it would refuse all on a full disk."""
    lake = tmp_path / "lake"
    take(lake, runs / "killed")
    before = content(lake)
    command = [sys.executable, "-c", INGEST_WITH_SMALL_FILES, str(runs), str(lake)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "File too large\n", done.stderr
    assert content(lake) == before
    take(lake, runs)
    assert_holds(lake, runs)


INGEST_WITH_SMALL_FILES = """
import resource, signal, sys
sys.dont_write_bytecode = True
from pathlib import Path
from understudy.history.lake.ingest import find_logs, ingest

groups = find_logs([Path(sys.argv[1])])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    ingest(groups, Path(sys.argv[2]))
except OSError as error:
    print(error.strerror)
"""
