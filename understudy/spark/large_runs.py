"""Writes one run into a lake in many tasks: first its records in pieces, then its tables by the SQL of the views.

`pieces` says which runs this is for. The files are not in the lake until the run is committed, so that the SQL reads
them by their names.
"""

from __future__ import annotations

from functools import partial

import msgspec
from pyspark.sql import DataFrame, SparkSession

from understudy.history.lake.columns import run_table
from understudy.history.lake.parts import PartWriter, folder_of, new_name, schema_digest
from understudy.history.lake.pieces import PIECE_BYTES, JoinedRun, NotInPieces, WrittenPiece, divide, join
from understudy.history.lake.runs_to_parts import WrittenRun
from understudy.history.lake.written import Part, RunEntry, TableFile
from understudy.history.metrics.clock_rows import clock_rows
from understudy.history.reading.file_marks import FileMark, mark
from understudy.history.report.runs import RunFiles
from understudy.history.storage.paths import StoragePath
from understudy.spark.distribution import contents, distribute, run_on_batches
from understudy.spark.failures import SparkFailed
from understudy.spark.job_watch import described
from understudy.spark.kernels import writing
from understudy.spark.lake_tables import read_files
from understudy.spark.views.definitions import RECORDS, TABLES
from understudy.spark.views.lake_views import LakeViews

_CLOCKS = "clocks"


def write_large_run(
    spark: SparkSession, lake: StoragePath, run: RunFiles, piece_bytes: int = PIECE_BYTES
) -> WrittenRun:
    """Write a part of one run.

    Raises:
        NotInPieces: the run cannot be written in pieces; the message says why. None of its rows is left.
        OSError: a file of the run or of the lake cannot be read or written.
        pyspark.errors.PySparkException, py4j.protocol.Py4JError: a task failed again and again.
    """
    ingest = new_name()
    marks = tuple(map(mark, run.files))
    pieces = _write_records(spark, lake, ingest, run, marks, piece_bytes)
    try:
        joined = join(pieces, marks)
        _check_spark_reads(spark, lake, joined)
    except NotInPieces:
        _delete(lake, pieces)
        raise
    files = {**joined.files, **_write_tables(spark, lake, ingest, joined)}
    files |= _write_clocks(lake, ingest, run.run, joined)
    entry = RunEntry(
        ingest=ingest, schema=schema_digest(), files=marks, lines=joined.lines, records=joined.lines, missing=""
    )
    return WrittenRun(name=ingest, part=Part(files=files), runs={run.run: entry})


def _write_records(
    spark: SparkSession,
    lake: StoragePath,
    ingest: str,
    run: RunFiles,
    marks: tuple[FileMark, ...],
    piece_bytes: int,
) -> list[WrittenPiece]:
    tasks = list(map(msgspec.msgpack.encode, divide(marks, piece_bytes)))
    kernel = partial(writing.write_pieces, lake=str(lake), ingest=ingest, run=run.run)
    with described(spark, "Understudy: writing the records of a large run into a lake"):
        return list(map(writing.decoded_piece, contents(distribute(spark, tasks, kernel))))


def _check_spark_reads(spark: SparkSession, lake: StoragePath, joined: JoinedRun) -> None:
    """Raises NotInPieces: only Python reads the lake's store; Spark has no connector for it."""
    try:
        read_files(spark, lake, joined.files, RECORDS)
    except SparkFailed as failed:
        raise NotInPieces(str(failed)) from None


def _write_tables(
    spark: SparkSession, lake: StoragePath, ingest: str, joined: JoinedRun
) -> dict[str, tuple[TableFile, ...]]:
    views = LakeViews(spark, partial(read_files, spark, lake, joined.files))
    files = {}
    for table in TABLES:
        with described(spark, f"Understudy: writing the table {table} of a large run into a lake"):
            written = _write_rows(views[table], lake, ingest, table, joined.records.started_ms)
        if written:
            files[folder_of(table)] = written
    return files


def _write_rows(
    rows: DataFrame, lake: StoragePath, ingest: str, table: str, started_ms: float
) -> tuple[TableFile, ...]:
    kernel = partial(writing.write_rows, lake=str(lake), ingest=ingest, table=table, started_ms=started_ms)
    parts = map(writing.decoded_part, contents(run_on_batches(rows, kernel)))
    return tuple(file for part in parts for own in part.files.values() for file in own)


def _write_clocks(lake: StoragePath, ingest: str, run: str, joined: JoinedRun) -> dict[str, tuple[TableFile, ...]]:
    with PartWriter(lake, ingest) as writer:
        rows = [(run, row) for row in clock_rows(joined.records)]
        writer.add(folder_of(_CLOCKS), run_table(_CLOCKS, rows, {}))
        return writer.close().files


def _delete(lake: StoragePath, pieces: list[WrittenPiece]) -> None:
    """Delete the files of pieces, which no commit will add."""
    for piece in pieces:
        for folder, files in piece.part.files.items():
            for file in files:
                (lake / folder / file.name).unlink()
