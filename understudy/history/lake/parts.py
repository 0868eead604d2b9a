"""Writes parts of a lake: the rows of some runs, as one Parquet file for each table that has any.

The file of a table is `<table>/<name>.parquet`. Each writer gets a new name, so that the files of a killed one are
never mixed up with others. A file counts once a commit of its Delta table has added it (`delta`). Several writers make
one part of a run that is larger than a task.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.columns import INGEST, RUN_TABLES, record_schema, table_schema, without_pairs
from understudy.history.lake.comments import record_comments, table_comments
from understudy.history.lake.layout import RECORDS, TABLES_FOLDER
from understudy.history.lake.written import Part, TableFile
from understudy.history.metrics.metric_tables import DEFINITIONS
from understudy.history.storage.filesystems import WrittenFile
from understudy.history.storage.paths import StoragePath, UrlPath, parquet_file, results_of

_INGEST_COMMENT = (
    "The ingest that wrote the row; it counts if the table `runs` has its run with this ingest as `whole`."
)
_BUFFERED_BYTES = 64 * 1024 * 1024


@cache
def schema_of(folder: str) -> pa.Schema:
    """Return the schema of a table by its folder, for example `tables/reigns`, without the column `ingest`."""
    kind, _, name = folder.partition("/")
    return record_schema(name) if kind == RECORDS else table_schema(name)


@cache
def described_schema(folder: str) -> pa.Schema:
    """Return all columns of a table by its folder, with their meanings as the metadata `comment`."""
    kind, _, name = folder.partition("/")
    comments = record_comments(name) if kind == RECORDS else table_comments(name)
    described = (
        field.with_metadata({"comment": comments[field.name]}) if field.name in comments else field
        for field in schema_of(folder)
    )
    return pa.schema([*described, INGEST.with_metadata({"comment": _INGEST_COMMENT})])


def folder_of(name: str) -> str:
    """Return the folder of one of `RUN_TABLES` or of a record type."""
    return f"{TABLES_FOLDER if name in RUN_TABLES else RECORDS}/{name}"


def folders() -> list[str]:
    """Return the folders of all tables."""
    return list(map(folder_of, (*RUN_TABLES, *PAYLOAD_BY_TYPE)))


@cache
def schema_digest() -> str:
    """Return a checksum of the schemas of all tables and of their definitions, by which older parts are recognised."""
    text = "".join(f"{folder} {schema_of(folder)}\n" for folder in sorted(folders()))
    return blake2b(f"{text}{DEFINITIONS}".encode(), digest_size=8).hexdigest()


# ------------------------------------------------------------------ files from files


def rewritten(
    folder: StoragePath, files: Sequence[TableFile], dropped: Collection[tuple[str, str]]
) -> TableFile | None:
    """Write the rows of some files of a table as one new file, in their order; return None if there are none.

    Args:
        dropped: the runs and ingests whose rows are left out.

    Raises:
        OSError: the new file cannot be written, or one of the others is gone.
    """
    with PartWriter(folder.parent) as writer:
        for file in files:
            with parquet_file(folder / file.name) as opened:
                for group in range(opened.num_row_groups):
                    table = without_pairs(opened.read_row_group(group), dropped)
                    if table.num_rows:
                        writer.add_written(folder.name, table)
        return next(iter(writer.close().files.get(folder.name, ())), None)


# ------------------------------------------------------------------ files


class PartWriter:
    """Writes the files of one part. They are on disk when `close` returns, and count once they are in their tables.

    Args:
        ingest: the name of the part, if other writers write more files of it.

    Attributes:
        name: the name of the part, which is the column `ingest` of its rows.
    """

    def __init__(self, lake: StoragePath, ingest: str = "") -> None:
        own = new_name()
        self.name = ingest or own
        self._file = f"{own}.parquet"
        self._lake = lake
        self._buffers: dict[str, list[pa.Table]] = {}
        self._bytes = 0
        self._values: dict[str, dict[str, set[str]]] = {}
        self._rows: dict[str, int] = {}
        self._open: dict[str, tuple[BinaryIO, pq.ParquetWriter]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream, writer in self._open.values():
            writer.is_open = False  # its destructor would write to the closed file
            if isinstance(stream, WrittenFile):
                stream.discard()
            with contextlib.suppress(OSError):  # what could not be written; the part does not count
                stream.close()

    def add(self, folder: str, rows: pa.Table) -> None:
        """Add rows of this part to the table of a folder.

        Raises:
            OSError: rows cannot be written.
        """
        self.add_written(folder, rows.append_column(INGEST, pa.repeat(pa.scalar(self.name), rows.num_rows)))

    def add_written(self, folder: str, rows: pa.Table) -> None:
        """Add rows that name their ingest. Raises as `add`."""
        self._buffers.setdefault(folder, []).append(rows)
        self._rows[folder] = self._rows.get(folder, 0) + rows.num_rows
        values = self._values.setdefault(folder, {"run": set(), "ingest": set()})
        for name, found in values.items():
            found.update(pc.unique(rows[name]).to_pylist())
        self._bytes += rows.nbytes
        if self._bytes >= _BUFFERED_BYTES:
            self._flush()

    def close(self) -> Part:
        """Write everything to disk.

        Raises:
            OSError: it cannot be written.
        """
        self._flush()
        written = results_of(self._written, self._open, is_stored=isinstance(self._lake, UrlPath))
        part = Part(files={folder: (file,) for folder, file in zip(self._open, written, strict=True)})
        for folder in self._open:
            _sync_folder(self._lake / folder)
        return part

    def _written(self, folder: str) -> TableFile:
        """Write the file of a table to its end."""
        stream, writer = self._open[folder]
        writer.close()
        size = stream.tell()
        _close_durably(self._lake / folder, stream)
        runs, ingests = ((min(found), max(found)) for found in self._values[folder].values())
        return TableFile(name=self._file, bytes=size, rows=self._rows[folder], runs=runs, ingests=ingests)

    def _flush(self) -> None:
        for folder, tables in self._buffers.items():
            table = pa.concat_tables(tables)
            self._writer(folder, table.schema).write_table(table)
        self._buffers.clear()
        self._bytes = 0

    def _writer(self, folder: str, schema: pa.Schema) -> pq.ParquetWriter:
        if folder not in self._open:
            path = self._lake / folder / self._file
            path.parent.mkdir(parents=True, exist_ok=True)
            stream = path.open("xb")
            writer = pq.ParquetWriter(stream, schema, compression="zstd", use_dictionary=_text_columns(schema))
            self._open[folder] = (stream, writer)
        return self._open[folder][1]


def _text_columns(schema: pa.Schema) -> list[str]:
    """Return the Parquet paths of the text columns. Few of these have many different values, unlike numbers."""
    return [path for field in schema for path in _texts_in(field.name, field.type)]


def _texts_in(path: str, type_: pa.DataType) -> Iterator[str]:
    if pa.types.is_string(type_):
        yield path
    elif pa.types.is_list(type_):
        yield from _texts_in(f"{path}.list.element", type_.value_type)
    elif pa.types.is_struct(type_):
        for field in type_:
            yield from _texts_in(f"{path}.{field.name}", field.type)


def new_name() -> str:
    """Return a name that no other part and no other file has."""
    return uuid.uuid4().hex[:16]


def _close_durably(path: StoragePath, stream: BinaryIO) -> None:
    """Close a file that is on disk then. A store has a file as soon as it is closed."""
    if not isinstance(path, UrlPath):
        stream.flush()
        os.fsync(stream.fileno())
    stream.close()


def _sync_folder(folder: StoragePath) -> None:
    """Write the folder's entries to disk, so that a new file is still there after a loss of power."""
    if isinstance(folder, UrlPath):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
