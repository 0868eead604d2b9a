"""Spark reads event logs through the format `understudy`, at once and as a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.foundation.eventlog.stories import LONG_LINE_PARTITIONS, RandomRun, killed_controller, long_line
from tests.understudy.history.lake.damaged_logs import write, write_damaged
from tests.understudy.spark.older_spark import NO_DATA_SOURCES, needs_read_limits
from understudy.history.lake.log_rows import BadSource, FileRange
from understudy.history.reading import findings, reader
from understudy.spark import register
from understudy.spark.log_files import LogChanged, SourceSettings, split
from understudy.spark.versions import HAS_DATA_SOURCES, HAS_READ_LIMITS

if not HAS_DATA_SOURCES:
    pytest.skip(NO_DATA_SOURCES, allow_module_level=True)

from tests.shares import at_night
from understudy.spark.event_log_source import EventLogReader, EventLogSource
from understudy.spark.stream_readers import UnlimitedStreamReader

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def source(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session with the format registered from the test's folder."""
    monkeypatch.chdir(tmp_path)
    register(session)
    return session


def load(session: SparkSession, path: str | list[str], **options: str) -> DataFrame:
    return session.read.format("understudy").options(**options).load(path)


def keys(rows: list[Any]) -> list[tuple[str, str, int, int]]:
    return sorted((row["run"], row["node"], row["incarnation"], row["seq"]) for row in rows)


def expected_keys(folder: Path) -> list[tuple[str, str, int, int]]:
    return sorted((r.run, r.node, r.incarnation, r.seq) for r in reader.read([folder]).records)


def test_relative_paths_and_patterns_are_read_in_many_tasks(source: SparkSession, tmp_path: Path) -> None:
    for seed in range(3):
        write(RandomRun(seed, records=200).logs, tmp_path / "runs" / f"random-{seed}")
    frame = load(source, "runs/random-*", partitionBytes="20000")
    assert frame.rdd.getNumPartitions() > 3
    found = frame.collect()
    assert keys(found) == expected_keys(tmp_path / "runs")
    assert all(row["flaws"] == [] for row in found)
    assert all(isinstance(json.loads(row["data"]), dict) for row in found)
    some = load(source, ["runs/random-0", f"file://{tmp_path}/runs/random-2"])
    assert {row["run"] for row in some.select("run").distinct().collect()} == {"random-0", "random-2"}


def test_wanted_types_are_columns(source: SparkSession, tmp_path: Path) -> None:
    write(killed_controller(), tmp_path / "run")
    frame = load(source, "run", types="FaultStruck, LeadershipWritten")
    faults = (
        frame.where("FaultInjected IS NOT NULL").selectExpr("FaultInjected.fault", "FaultInjected.target").collect()
    )
    assert ("kill", "broker-1") in [tuple(row) for row in faults]
    states = frame.selectExpr("explode(LeadershipWritten.partitions) AS state").selectExpr("state.*")
    expected = [
        state.isr
        for record in reader.read([tmp_path]).records
        if record.type == "LeadershipWritten"
        for state in getattr(record.data, "partitions")  # noqa: B009
    ]
    assert sorted(tuple(row["isr"]) for row in states.collect()) == sorted(expected)
    assert "data" not in frame.columns


def test_damaged_lines_are_rows_with_flaws(source: SparkSession, tmp_path: Path) -> None:
    write_damaged(tmp_path / "run")
    flaws = load(source, "run").selectExpr("explode(flaws) AS flaw").collect()
    kinds = {row["flaw"].partition(":")[0] for row in flaws}
    unnoticed = {findings.NOT_A_RECORD} - kinds  # data that does not fit is only found if it is decoded
    assert kinds | unnoticed == {finding.kind for finding in reader.read([tmp_path]).findings}


def test_a_line_of_ten_megabytes_is_one_row_of_several_tasks(source: SparkSession, tmp_path: Path) -> None:
    write(long_line(), tmp_path / "run")
    frame = load(source, "run", partitionBytes="3000000")
    assert frame.rdd.getNumPartitions() == 4
    found = frame.selectExpr("seq", "size(flaws) AS flaws", "length(data) AS length").orderBy("seq").collect()
    assert [(row["seq"], row["flaws"], row["length"] > 10_000_000) for row in found] == [
        (1, 0, False),
        (2, 0, True),
        (3, 0, False),
    ]
    states = load(source, "run", types="LeadershipWritten").selectExpr("size(LeadershipWritten.partitions) AS states")
    assert [row["states"] for row in states.collect()] == [LONG_LINE_PARTITIONS]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("ftp://host/runs", {}, "ftp://host/runs cannot be read through ftp:.* Mount the storage, or copy the logs"),
        ("s3a:///runs", {}, "s3a:///runs names no bucket"),
        ("nothing/*", {}, "no event-log files at or below .*/nothing/\\*"),
        ("run", {"types": "RequestSent,Nothing"}, "record type 'Nothing' is not known; expected some of AnswerInje"),
        ("run", {"typs": "RequestSent"}, "option 'typs' is not known; expected types, partitionBytes"),
        ("run", {"partitionBytes": "0"}, "partitionBytes is '0'; expected a number of bytes from 1"),
    ],
)
def test_what_cannot_be_read_is_named(
    source: SparkSession, tmp_path: Path, path: str, options: dict[str, str], message: str
) -> None:
    write(killed_controller(), tmp_path / "run")
    with pytest.raises(PySparkException, match=message):
        load(source, path, **options).collect()


# ------------------------------------------------------------------ streams


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as stream:
        stream.write(data)


def run_stream(session: SparkSession, folder: Path, checkpoint: Path, **options: str) -> list[Any]:
    """Read all that was written since the checkpoint, and return the rows of each batch in one list."""
    rows: list[Any] = []
    query = (
        session.readStream.format("understudy")
        .options(**options)
        .load(str(folder))
        .writeStream.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return rows


@at_night("a followed run is continued from its checkpoint each time")
def test_a_stream_started_again_loses_and_doubles_nothing(source: SparkSession, tmp_path: Path) -> None:
    """Files grow by half a line, by lines and by whole files between the starts."""
    limit = {"maxBytesPerTrigger": "9000"} if HAS_READ_LIMITS else {}
    whole = write(RandomRun(3, records=400).logs, tmp_path / "whole")
    growing = tmp_path / "growing"
    growing.mkdir()
    contents = {file.name: file.read_bytes() for file in whole.iterdir()}
    found = []
    for third in range(1, 4):
        for number, (name, text) in enumerate(sorted(contents.items())):
            if number and third == 1:
                continue  # only one file is there at first
            size = (growing / name).stat().st_size if (growing / name).exists() else 0
            append(growing / name, text[size : len(text) * third // 3])
        rows = run_stream(source, growing, tmp_path / "checkpoint", **limit)
        assert rows
        assert all(row["flaws"] == [] for row in rows)
        found += rows
    assert keys(found) == expected_keys(whole)
    assert run_stream(source, growing, tmp_path / "checkpoint") == []


def test_a_stream_names_a_file_that_is_gone_or_shorter(source: SparkSession, tmp_path: Path) -> None:
    folder = write(killed_controller(), tmp_path / "run")
    run_stream(source, folder, tmp_path / "checkpoint")
    log = folder / "broker-1-0001-0001.jsonl"
    text = log.read_bytes()
    log.write_bytes(text[:-1])
    with pytest.raises(PySparkException, match=r"broker-1-0001-0001.jsonl has become shorter: the stream has read"):
        run_stream(source, folder, tmp_path / "checkpoint")
    log.unlink()
    with pytest.raises(PySparkException, match=r"broker-1-0001-0001.jsonl is gone, and the stream has read"):
        run_stream(source, folder, tmp_path / "checkpoint")
    log.write_bytes(text)
    assert run_stream(source, folder, tmp_path / "checkpoint") == []


# ------------------------------------------------------------------ plans, without Spark


def settings(folder: Path, **changes: Any) -> SourceSettings:
    values = {"paths": (str(folder),), "types": None, "partition_bytes": 100, "max_bytes_per_trigger": None}
    return SourceSettings(**values | changes)


def test_small_files_share_a_task_and_a_large_one_is_split() -> None:
    ranges = [FileRange("a", 0, 30), FileRange("b", 0, 60), FileRange("c", 0, 250), FileRange("d", 0, 0)]
    partitions = split(ranges, 100)
    found = [[tuple(part) for part in task] for task in partitions]
    assert found == [
        [("a", 0, 30), ("b", 0, 60)],
        [("c", 0, 100)],
        [("c", 100, 200)],
        [("c", 200, 250), ("d", 0, 0)],
    ]


def test_a_folder_without_logs_can_be_followed_but_not_read(tmp_path: Path) -> None:
    stream = UnlimitedStreamReader(settings(tmp_path))
    assert stream.latestOffset() == stream.initialOffset() == {}
    with pytest.raises(ValueError, match="no event-log files at or below"):
        EventLogReader(settings(tmp_path)).partitions()


def test_a_stream_without_limits_reads_what_has_grown(tmp_path: Path) -> None:
    log = tmp_path / "broker-1-0001-0001.jsonl"
    stream = UnlimitedStreamReader(settings(tmp_path))
    log.write_bytes(b"{}\n{}\n{")
    first = stream.latestOffset()
    assert first == {str(log): 6}
    log.write_bytes(b"{}\n{}\n{}\n")
    second = stream.latestOffset()
    assert second == {str(log): 9}
    [task] = stream.partitions(first, second)
    assert task.value == (FileRange(str(log), 6, 9),)
    log.write_bytes(b"{}\n")
    with pytest.raises(LogChanged, match="has become shorter"):
        stream.latestOffset()


def test_a_restarted_stream_without_limits_finds_a_log_that_is_gone_or_shorter(tmp_path: Path) -> None:
    log = tmp_path / "broker-1-0001-0001.jsonl"
    log.write_bytes(b"{}\n")
    restarted = UnlimitedStreamReader(settings(tmp_path))
    with pytest.raises(LogChanged, match="has become shorter"):
        restarted.partitions({str(log): 6}, restarted.latestOffset())
    log.unlink()
    with pytest.raises(LogChanged, match="is gone"):
        restarted.partitions({str(log): 6}, {})


def test_a_limit_that_this_spark_lacks_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.spark.event_log_source.HAS_READ_LIMITS", False)
    source = EventLogSource({"path": "run", "maxBytesPerTrigger": "1000"})
    with pytest.raises(BadSource, match=r"option maxBytesPerTrigger needs Spark 4\.2 or newer, and this is Spark \d"):
        source.streamReader(StructType())


@needs_read_limits
def test_each_batch_of_a_stream_is_limited_and_ends_at_a_line(tmp_path: Path) -> None:
    from understudy.spark.limited_stream import LimitedStreamReader  # noqa: PLC0415  Spark may lack its base

    folder = write(killed_controller(), tmp_path / "run")
    sizes = {str(file): file.stat().st_size for file in folder.iterdir()}
    stream = LimitedStreamReader(settings(folder, max_bytes_per_trigger=1000))
    offset = stream.initialOffset()
    batches = 0
    while (following := stream.latestOffset(offset, stream.getDefaultReadLimit())) != offset:
        grown = {file: end - offset.get(file, 0) for file, end in following.items() if end != offset.get(file, 0)}
        assert 0 < sum(grown.values()) < 2000
        for file, end in following.items():
            assert Path(file).read_bytes()[end - 1 : end] == b"\n"
        offset, batches = following, batches + 1
    assert offset == sizes
    assert batches > 3
