"""Spark computes the same tables, to the last digit, and the same findings as plain Python and as SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.foundation.eventlog.lines import Logs, by_run
from tests.foundation.eventlog.stories import RandomRun, controller_never_ready, killed_controller, silent_controllers
from tests.shares import at_night, share_of
from tests.understudy.history.lake.damaged_logs import write_damaged
from tests.understudy.history.lake.lakes import take
from tests.understudy.history.reading.clock_runs import moved, on_one_machine
from tests.understudy.spark.older_spark import FINDS_DAMAGE_BY_SQL
from tests.understudy.spark.oracle.small_logs import session_for_small_logs
from tests.understudy.spark.oracle.sql_findings import findings_by_sql
from tests.understudy.spark.oracle.sql_tables import assert_sql_agrees
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.history.metrics.metric_tables import TABLES, RunMetrics
from understudy.history.metrics.metrics import measure
from understudy.history.metrics.row_tables import ROW_TABLES
from understudy.history.reading import findings
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.reader import read
from understudy.history.report.replay import Replay, replay_in_python
from understudy.history.report.report import render
from understudy.history.report.runs import find_logs
from understudy.spark.failures import SparkFailed
from understudy.spark.replay_job import SparkReplay, TablesExist
from understudy.trials.seeds.seeds import run_seed

pytestmark = pytest.mark.xdist_group("spark")

SAMPLES = Path(__file__).parents[2] / "samples"
EARLIER = ("run-0.1.0", "seed-20")
"""The runs of an earlier release, in `SAMPLES`."""


def write(logs: Logs, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return folder


def differences(found: Replay, expected: Replay) -> list[str]:
    """Return the differences between two replays, one line for each table that differs."""
    found_runs, expected_runs = ({run.run: run for run in replay.runs} for replay in (found, expected))
    return [
        f"{name}.{table}: {rows(found_runs, name, table)} instead of {rows(expected_runs, name, table)}"
        for name in sorted({*found_runs, *expected_runs})
        for table in TABLES
        if rows(found_runs, name, table) != rows(expected_runs, name, table)
    ]


def rows(runs: dict[str, RunMetrics], name: str, table: str) -> object:
    return getattr(runs[name], table) if name in runs else None


def in_spark(session: SparkSession, paths: list[Path], *, output: Path | None = None, whole: bool = False) -> Replay:
    return SparkReplay(session, "Spark").replay(find_logs(paths), output=output, whole=whole)


def assert_same_replay(session: SparkSession, paths: Iterable[Path], *, refused: Collection[str] = ()) -> Replay:
    """Compare what Spark, plain Python and SQL compute with what the tolerant reader does.

    Args:
        refused: the runs that a lake refuses; SQL computes the tables of the others.
    """
    expected = with_the_tolerant_reader(list(paths))
    by_engine = {
        "Spark": in_spark(session, list(paths), whole=True),
        "Python": replay_in_python(list(paths)),
    }
    for engine, found in by_engine.items():
        assert differences(found, expected) == [], engine
        assert found.findings == expected.findings, engine
        assert found.lines == expected.lines, engine
    if FINDS_DAMAGE_BY_SQL:
        assert findings_by_sql(session, list(paths)) == (expected.findings, expected.lines)
    in_lake = [run for run in expected.runs if run.run not in refused]
    if in_lake:
        with TemporaryDirectory() as folder:
            lake = Path(folder, "lake")
            assert {refusal.run for refusal in take(lake, *paths).refused} == set(refused)
            assert_sql_agrees(session_for_small_logs(session), lake, in_lake)
    return expected


def with_the_tolerant_reader(paths: list[Path]) -> Replay:
    reading = read(paths)
    runs = tuple(measure(run, records, reading.sequences) for run, records in by_run(reading.records).items())
    return Replay(runs=runs, findings=reading.findings, lines=reading.lines, engine="measure")


def test_runs_written_by_hand_random_runs_of_the_simulator_of_processes_and_of_an_earlier_release(
    session: SparkSession, tmp_path: Path
) -> None:
    """All at once, because SQL takes longer to plan its views than to compute them."""
    write(killed_controller(), tmp_path / "killed")
    write(controller_never_ready(), tmp_path / "never-ready")
    write(silent_controllers(), tmp_path / "silent")
    for seed in range(share_of("random-runs")):
        write(RandomRun(seed, records=400).logs, tmp_path / f"random-{seed}")
    simulated = ("seed-1", "seed-3")
    for seed in (1, 3):
        run_seed(seed, 30, events=tmp_path / f"seed-{seed}")
    run_processes(tmp_path / "processes")
    expected = assert_same_replay(session, [tmp_path, SAMPLES])
    runs = {run.run: run for run in expected.runs}
    (of_processes,) = by_run(read([tmp_path / "processes"]).records)
    assert len(runs) == 3 + share_of("random-runs") + len(simulated) + len(EARLIER) + 1
    for table in TABLES.keys() - {"missing"}:
        assert any(getattr(run, table) for run in expected.runs), f"no run has rows in {table}: nothing was compared"
    assert all(runs[name].failovers for name in simulated)
    assert [failover.cause for failover in runs[of_processes].failovers][:1] == ["kill"]
    assert set(EARLIER) <= runs.keys()
    assert expected.findings == ()


def write_of_several_machines(folder: Path) -> None:
    """Write a run whose nodes have clocks of their own."""
    rates = {"broker-1": 1.0004, "broker-2": 0.9997, "broker-3": 1.00049, "broker-4": 0.99951}
    lines = moved(
        on_one_machine(2),
        lambda node, ms: 1_000_000 * len(node) + 77_777 * int(node[-1]) + ms * rates[node] if node in rates else ms,
        lambda node, incarnation: f"boot of {node}",
    )
    folder.mkdir(parents=True)
    for name, text in lines.items():
        (folder / name).write_bytes(b"".join(text))


def run_processes(folder: Path) -> None:
    """Run brokers as processes; their controller is killed with SIGKILL, and another takes over."""
    with LocalCluster(brokers=3, directory=folder, session_timeout_ms=4_000) as cluster:
        killed = cluster.controller()
        killed.kill()
        cluster.wait_until(lambda: cluster.controller_id() not in (None, killed.id), "another broker is controller")
        killed.start()
        cluster.stop()


def test_every_record_type_of_every_version(session: SparkSession) -> None:
    samples = Path(__file__).parents[2] / "foundation" / "eventlog" / "samples"
    assert assert_same_replay(session, sorted(samples.iterdir())).findings == ()


WRONG_FIELDS = (
    (b'"to":', b'"towards":'),
    (b'"correlation_id":0', b'"correlation_id":"none"'),
    (b'"correlation_id":0', b'"correlation_id":null'),
    (b'"attempt":1', b'"attempt":true'),
    (b'"refused":[]', b'"refused":{}'),
    (b'"took_ms":0.0', b'"took_ms":"long"'),
    (b'"mono_ms":', b'"mono_ms":1e300,"later":'),
    (b'"cause":', b'"cause":"one","later":'),
)


def write_with_wrong_fields(folder: Path) -> None:
    """Write a run for each kind of missing or wrong field, in a folder of its own."""
    for number, (old, new) in enumerate(WRONG_FIELDS):
        log = write(killed_controller(f"fields-{number}"), folder / str(number)) / "broker-2-0001-0001.jsonl"
        whole = log.read_bytes()
        assert old in whole
        log.write_bytes(whole.replace(old, new, 1))


def write_out_of_order(folder: Path) -> None:
    """Write a run with an incarnation in two files, the lines of the second in reverse."""
    write(RandomRun(7, records=300).logs, folder)
    log = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    lines = log.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    log.write_bytes(b"".join(lines[: middle + 1]))
    log.with_name(log.name.replace("-0001.jsonl", "-0002.jsonl")).write_bytes(b"".join(reversed(lines[middle:])))


def write_mixed(folder: Path) -> None:
    """Write two runs, with a file that has records of both."""
    first, second = (write(RandomRun(seed, records=200).logs, folder / str(seed)) for seed in (1, 2))
    moved, kept = min(second.iterdir()), min(first.iterdir())
    kept.write_bytes(kept.read_bytes() + moved.read_bytes())
    moved.unlink()


def test_damaged_mixed_and_disordered_logs(session: SparkSession, tmp_path: Path) -> None:
    """All at once, as above; each folder has runs of its own, and its findings name its files."""
    logs = tmp_path / "logs"
    damaged = write_damaged(logs / "a folder with ünicode & 100%")
    write_with_wrong_fields(logs / "fields")
    write_out_of_order(logs / "order")
    write_mixed(logs / "mixed")
    (tmp_path / "empty").mkdir()
    expected = assert_same_replay(session, [logs, tmp_path / "empty"], refused=["random-1", "random-2"])

    def found_in(folder: Path) -> list[LogFinding]:
        return [each for each in expected.findings if Path(each.file).is_relative_to(folder)]

    assert {each.kind for each in [*found_in(damaged), *found_in(tmp_path / "empty")]} == {
        findings.TORN_LINE,
        findings.NOT_A_RECORD,
        findings.UNKNOWN_VERSION,
        findings.UNKNOWN_TYPE,
        findings.EMPTY_FILE,
        findings.NO_FILES,
        findings.GAP,
        findings.REPEAT,
    }
    numbers = {Path(each.file).parent.name for each in found_in(logs / "fields")}
    assert numbers == {str(number) for number in range(len(WRONG_FIELDS))}
    assert [each.kind for each in found_in(logs / "order")] == [findings.OUT_OF_ORDER, findings.REPEAT]
    assert found_in(logs / "mixed") == []
    assert len(expected.runs) == 1 + len(WRONG_FIELDS) + 1 + 2


@pytest.mark.representative("a Spark job")
def test_tables_are_written_as_parquet_and_not_overwritten(session: SparkSession, tmp_path: Path) -> None:
    folder, output = write(killed_controller(), tmp_path / "run"), tmp_path / "tables"
    in_spark(session, [folder], output=output)
    assert sorted(path.name for path in output.iterdir()) == sorted([*TABLES, *ROW_TABLES])
    (row,) = session.read.parquet(str(output / "failovers")).collect()
    assert (row["run"], row["cause"], row["detection_ms"], row["epoch"]) == ("run-1", "kill", 3000.0, 2)
    requests = session.read.parquet(str(output / "request_log")).orderBy("sent_at_ms").collect()
    assert [(row["run"], row["api"], row["answered_at_ms"] - row["sent_at_ms"]) for row in requests] == [
        ("run-1", "LeaderAndIsr", 5.0),
        ("run-1", "UpdateMetadata", 4.0),
        ("run-1", "UpdateMetadata", 20.0),
    ]
    with pytest.raises(TablesExist, match="give another folder"):
        in_spark(session, [folder], output=output)
    (tmp_path / "file").touch()
    with pytest.raises(SparkFailed, match=f"the tables cannot be written to {tmp_path}/file/tables: "):
        in_spark(session, [folder], output=tmp_path / "file" / "tables")


def test_logs_without_a_record(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "broker-1-0001-0001.jsonl").touch()
    assert assert_same_replay(session, [tmp_path]).runs == ()
    (tmp_path / "broker-1-0001-0001.jsonl").write_bytes(b"{}\n")
    assert assert_same_replay(session, [tmp_path]).runs == ()


@at_night("SQL computes the tables of other runs each time")
def test_sql_computes_the_same_for_several_machines_with_many_partitions_and_compiled_expressions(
    session: SparkSession, tmp_path: Path
) -> None:
    """SQL computes from the rows of `clocks` the same times as the kernel, to the microsecond.

    It does in any time zone, with ANSI and without, and leaves neither a setting nor a temporary view behind.
    """
    write_of_several_machines(tmp_path / "logs" / "machines")
    for seed in range(2):
        write(RandomRun(seed, records=300).logs, tmp_path / "logs" / f"random-{seed}")
    take(tmp_path / "lake", tmp_path / "logs")
    expected = replay_in_python([tmp_path / "logs"])
    other = session.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "4")
    other.conf.set("spark.sql.ansi.enabled", "false")
    other.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    settings = dict(other.conf.getAll) if hasattr(other.conf, "getAll") else {}
    assert_sql_agrees(other, tmp_path / "lake", expected.runs)
    assert settings == (dict(other.conf.getAll) if hasattr(other.conf, "getAll") else {})
    assert other.catalog.listTables() == []
    clocks = {run.run: run.clocks for run in expected.runs}["seed-2"]
    assert len({row.boot for row in clocks}) > 1
    assert any(row.offset_ms for row in clocks)


def test_tables_of_mixed_files_are_written_once(session: SparkSession, tmp_path: Path) -> None:
    write_mixed(tmp_path / "logs")
    in_spark(session, [tmp_path / "logs"], output=tmp_path / "tables")
    written = session.read.parquet(str(tmp_path / "tables" / "partitions")).collect()
    expected = replay_in_python([tmp_path / "logs"])
    assert sorted((row["run"], row["topic"], row["partition"], row["writes"]) for row in written) == sorted(
        (run.run, row.topic, row.partition, row.writes) for run in expected.runs for row in run.partitions
    )


def test_a_page_has_only_the_worst_partitions_but_counts_all(session: SparkSession, tmp_path: Path) -> None:
    run_seed(3, 30, events=tmp_path / "seed-3")
    (whole,), (short,) = in_spark(session, [tmp_path], whole=True).runs, in_spark(session, [tmp_path]).runs
    assert len(short.partitions) < len(whole.partitions) == short.totals.partitions
    assert short.totals.leaderless_partitions == sum(row.leaderless_ms > 0 for row in whole.partitions)
    assert msgspec.structs.replace(whole, partitions=short.partitions) == short
    assert render(replay_with(short)) == render(replay_with(whole))


def replay_with(run: RunMetrics) -> Replay:
    return Replay(runs=(run,), findings=(), lines=0, engine="")
