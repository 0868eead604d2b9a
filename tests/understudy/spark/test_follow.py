"""Growing logs that are followed: their tables and lake equal a replay's and an ingest's after the end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.shares import at_night
from tests.understudy.history.lake.damaged_logs import write
from tests.understudy.history.lake.lakes import assert_holds, take
from tests.understudy.spark.older_spark import needs_data_sources
from tests.understudy.spark.oracle.small_logs import session_for_small_logs
from tests.understudy.spark.oracle.sql_tables import assert_sql_agrees
from understudy.history.lake import ingest as ingesting
from understudy.history.lake.pieces import NotInPieces
from understudy.history.lake.runs_to_parts import WrittenRun
from understudy.history.report.replay import Replay, replay_in_python
from understudy.history.report.runs import RunFiles
from understudy.history.storage.paths import StoragePath
from understudy.spark import follow_job, ingest_job, lake_sink
from understudy.spark.failures import SparkFailed
from understudy.spark.follow_job import LogStream
from understudy.spark.lake_sink import LakeSink

pytestmark = [pytest.mark.xdist_group("spark"), needs_data_sources]

TIMEOUT_S = 240.0


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    folder = tmp_path / "followed"
    folder.mkdir()
    return folder


def wait_for(stream: LogStream, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S:g} s: {what}"
        stream.wait(0.1)


def wait_for_lines(stream: LogStream, lines: int) -> None:
    wait_for(stream, lambda: stream.lines >= lines, f"{lines} lines are read")


def append(source: Path, target: Path, upto: int | None = None) -> int:
    """Append what `target` lacks of the first `upto` bytes of `source`; return the lines that are whole in it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size = target.stat().st_size if target.exists() else 0
    with target.open("ab") as stream:
        stream.write(source.read_bytes()[size:upto])
    return target.read_bytes().count(b"\n")


def portions(whole: Path, followed: Path, seed: int) -> Iterator[int]:
    """Let all logs grow by turns, also in the middle of a line and file by file; yield the number of whole lines."""
    chance = random.Random(seed)
    lines: dict[Path, int] = {}
    files = sorted(whole.rglob("*.jsonl"))
    sizes = dict.fromkeys(files, 0)
    while grow := [file for file in files if sizes[file] < file.stat().st_size]:
        for file in chance.sample(grow, max(1, 2 * len(grow) // 3)):
            sizes[file] += chance.randint(file.stat().st_size // 4, file.stat().st_size)
            lines[file] = append(file, followed / file.relative_to(whole), sizes[file])
        yield sum(lines.values())


def expected(folder: Path) -> Replay:
    return replace(replay_in_python([folder]), engine="live")


@pytest.mark.parametrize(
    ("seed", "records", "with_sql"),
    [
        (0, 150, False),
        pytest.param(
            1, 400, True, marks=at_night("the first seed has as many pages, and other tests compare SQL of all tables")
        ),
    ],
    ids=["0", "1"],
)
def test_the_tables_at_the_end_are_those_of_a_replay(
    session: SparkSession,
    followed: Path,
    tmp_path: Path,
    seed: int,
    records: int,
    with_sql: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follow_job, "BATCH_BYTES", 50_000)
    whole = tmp_path / "whole"
    write(RandomRun(seed, records=records, run="first").logs, whole / "first")
    write(RandomRun(seed + 100, records=records // 2, run="second").logs, whole / "second")
    with LogStream(session, [followed], tmp_path / "checkpoint") as stream:
        for lines in portions(whole, followed, seed):
            wait_for_lines(stream, lines)
            live = stream.replay("live")
            assert live.lines == sum(run.totals.records for run in live.runs) == lines
            assert live.findings == ()
        assert stream.replay("live", whole=True) == expected(followed)
        assert stream.finish("live", whole=True) == expected(whole)
    if with_sql:
        take(tmp_path / "lake", followed)
        assert_sql_agrees(session_for_small_logs(session), tmp_path / "lake", stream.replay("live", whole=True).runs)


def test_a_stream_started_again_from_its_checkpoint_loses_and_doubles_nothing(
    session: SparkSession, followed: Path, tmp_path: Path
) -> None:
    whole = write(RandomRun(5, records=600).logs, tmp_path / "whole")
    checkpoint = tmp_path / "checkpoint"
    starts = 0
    for number, lines in enumerate(portions(whole, followed, 5)):
        if number % 2 == 0:
            with LogStream(session, [followed], checkpoint) as stream:
                wait_for_lines(stream, lines)
                assert stream.replay("live", whole=True) == expected_whole_lines(followed, tmp_path / f"cut-{number}")
            starts += 1
    with LogStream(session, [followed], checkpoint) as stream:
        assert stream.finish("live", whole=True) == expected(whole)
    assert starts > 1


class LateWorker:
    """A query whose data source was not planned in time."""

    def exception(self) -> Exception:
        return StreamingQueryException("[STREAM_FAILED] ...: Python worker failed to connect back.")


def test_a_stream_whose_python_starts_late_is_started_again(
    session: SparkSession, followed: Path, tmp_path: Path
) -> None:
    whole = write(killed_controller(), tmp_path / "whole")
    first, *others = sorted(whole.iterdir())
    with LogStream(session, [followed], tmp_path / "checkpoint") as stream:
        wait_for_lines(stream, append(first, followed / first.name))
        assert stream._query is not None
        stream._query.stop()
        stream._query = cast("StreamingQuery", LateWorker())
        for file in others:
            append(file, followed / file.name)
        wait_for_lines(stream, sum(file.read_bytes().count(b"\n") for file in whole.iterdir()))
        assert stream.replay("live", whole=True) == expected(whole)


def test_a_stream_whose_python_always_starts_late_is_given_up(
    session: SparkSession, followed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = LogStream(session, [followed], tmp_path / "checkpoint")
    starts = []

    def start() -> None:
        starts.append(True)
        stream._query = cast("StreamingQuery", LateWorker())

    monkeypatch.setattr(stream, "_start", start)
    stream._start()
    with pytest.raises(SparkFailed, match=r"can no longer be followed: .*Python worker failed to connect back"):
        wait_for(stream, lambda: False, "the stream ends")
    assert len(starts) == 1 + follow_job._MAX_RESTARTS


def expected_whole_lines(folder: Path, copy: Path) -> Replay:
    """Replay a copy of the logs without lines that are still being written."""
    for file in folder.rglob("*.jsonl"):
        text = file.read_bytes()
        if b"\n" in text:
            target = copy / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text[: text.rindex(b"\n") + 1])
    return expected(copy)


def test_damage_and_a_torn_last_line_are_findings(session: SparkSession, followed: Path, tmp_path: Path) -> None:
    whole = write(killed_controller(), tmp_path / "whole")
    with LogStream(session, [followed], tmp_path / "checkpoint") as stream:
        for file in sorted(whole.iterdir()):
            append(file, followed / file.name)
        torn = followed / "broker-9-0001-0001.jsonl"
        torn.write_bytes(b'{"version":1,"ru')
        wait_for_lines(stream, sum(file.read_bytes().count(b"\n") for file in whole.iterdir()))
        assert stream.replay("live").findings == ()
        assert stream.finish("live", whole=True) == expected(followed)
        assert [finding.kind for finding in stream.finish("live").findings] == ["torn line"]
    with LogStream(session, [followed], tmp_path / "other") as stream:
        torn.write_bytes(b"not a record\n")
        wait_for(stream, lambda: bool(stream.replay("live").findings), "the damaged line is found")
        assert stream.replay("live", whole=True) == expected(followed)


def test_a_log_that_is_deleted_ends_the_stream_by_name(session: SparkSession, followed: Path, tmp_path: Path) -> None:
    whole = write(killed_controller(), tmp_path / "whole")
    logs = sorted(whole.iterdir())
    with LogStream(session, [followed], tmp_path / "checkpoint") as stream:
        lines = sum(append(file, followed / file.name) for file in logs)
        wait_for_lines(stream, lines)
        (followed / logs[0].name).unlink()
        with pytest.raises(SparkFailed, match=rf"can no longer be followed: \S+{logs[0].name} is gone, and the stream"):
            wait_for(stream, lambda: False, "the stream ends")


def test_the_lake_beside_it_holds_the_runs_as_they_grow(
    session: SparkSession, followed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.spark.lake_sink.INTERVAL_S", 0.05)
    whole, lake = write(RandomRun(7, records=300).logs, tmp_path / "whole"), tmp_path / "lake"
    with (
        LogStream(session, [followed], tmp_path / "checkpoint") as stream,
        LakeSink(session, [followed], lake) as sink,
    ):
        versions = set()
        for lines in portions(whole, followed, 7):
            wait_for(
                stream, lambda: sink.ingested is not None and sink.ingested.version not in versions, "the lake grows"
            )
            assert sink.ingested is not None
            versions.add(sink.ingested.version)
            wait_for_lines(stream, lines)
        stream.finish("live")
        last = sink.finish()
    assert last is not None
    assert last.refused == []
    assert len(versions) > 1
    assert_holds(lake, followed)
    assert sink.finish() is not None, "it may be called again"


def test_a_large_run_is_divided_at_the_end(
    session: SparkSession, followed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose logs grow has not ended, so that its pieces would be thrown away."""
    divided: list[str] = []

    def divide(spark: SparkSession, lake: StoragePath, run: RunFiles) -> WrittenRun:
        divided.append(run.run)
        raise NotInPieces("this test needs none")

    monkeypatch.setattr(lake_sink, "INTERVAL_S", 0.05)
    monkeypatch.setattr(ingesting, "LARGE_RUN_BYTES", 0)
    monkeypatch.setattr(ingest_job, "write_large_run", divide)
    whole = write(killed_controller("large"), tmp_path / "whole")
    with LakeSink(session, [followed], tmp_path / "lake") as sink:
        *others, last = whole.iterdir()
        for file in others:
            append(file, followed / file.name)
        append(last, followed / last.name, last.stat().st_size // 2)
        deadline = time.monotonic() + TIMEOUT_S
        while sink.ingested is None:
            assert time.monotonic() < deadline, f"the lake is not written within {TIMEOUT_S:g} s"
            time.sleep(0.05)
        assert divided == []
        append(last, followed / last.name)
        sink.finish()
    assert divided == ["large"]
    assert_holds(tmp_path / "lake", followed)


def test_a_lake_that_cannot_be_written_is_a_problem_until_it_can(
    session: SparkSession, followed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.spark.lake_sink.INTERVAL_S", 0.05)
    lake = tmp_path / "lake"
    lake.write_text("a file")
    whole = write(killed_controller(), tmp_path / "whole")
    with (
        LogStream(session, [followed], tmp_path / "checkpoint") as stream,
        LakeSink(session, [followed], lake) as sink,
    ):
        for file in whole.iterdir():
            append(file, followed / file.name)
        wait_for(stream, lambda: bool(sink.problem), "the problem shows")
        assert sink.problem == f"{lake} is a file; give a folder"
        lake.unlink()
        wait_for(stream, lambda: sink.ingested is not None, "the lake is written")
        assert sink.problem == ""
        sink.finish()
    assert_holds(lake, followed)
