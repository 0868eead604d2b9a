"""Writes the parts of a lake in Spark's workers. A task is some whole runs, or a piece of one that is larger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

from understudy.history.lake.columns import completed
from understudy.history.lake.log_rows import FileRange
from understudy.history.lake.parts import PartWriter, folder_of
from understudy.history.lake.pieces import WrittenPiece, write_piece
from understudy.history.lake.runs_to_parts import WrittenRun, write_part
from understudy.history.lake.written import Part
from understudy.history.storage.paths import storage_path
from understudy.spark.kernels.measuring import runs_of
from understudy.spark.kernels.results import Result


def write_parts(tasks: Iterable[bytes], *, lake: str) -> Iterator[Result]:
    """Write a part of the lake for each task; the content of its result is for `decoded`."""
    return (Result("part", msgspec.json.encode(write_part(storage_path(lake), runs_of(task)))) for task in tasks)


def decoded(content: bytes) -> WrittenRun:
    return msgspec.json.decode(content, type=WrittenRun)


# ------------------------------------------------------------------ a run in pieces


def write_pieces(tasks: Iterable[bytes], *, lake: str, ingest: str, run: str) -> Iterator[Result]:
    """Write the records of pieces of a run, each as `divide` makes it, as MessagePack; results for `decoded_piece`."""
    for task in tasks:
        ranges = msgspec.msgpack.decode(task, type=tuple[FileRange, ...])
        yield Result("piece", msgspec.msgpack.encode(write_piece(storage_path(lake), ingest, run, ranges)))


def decoded_piece(content: bytes) -> WrittenPiece:
    return msgspec.msgpack.decode(content, type=WrittenPiece)


def write_rows(
    batches: Iterable[pa.RecordBatch], *, lake: str, ingest: str, table: str, started_ms: float
) -> Iterator[Result]:
    """Write rows of a run that SQL has computed as a file of a table; the result is for `decoded_part`."""
    with PartWriter(storage_path(lake), ingest) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.add(folder_of(table), completed(table, pa.Table.from_batches([batch]), started_ms))
        yield Result("rows", msgspec.json.encode(writer.close()))


def decoded_part(content: bytes) -> Part:
    return msgspec.json.decode(content, type=Part)
