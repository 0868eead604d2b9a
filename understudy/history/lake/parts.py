"""Writes parts of a lake: the rows of some runs, as one Parquet file for each table that has any.

The file of a table is `<table>/<part>.parquet`. Each part gets a new name, so that the files of a killed
writer are never mixed up with files that count.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.columns import RUN_TABLES, record_schema, table_schema
from understudy.history.lake.manifest import Part, sync_file, sync_folder
from understudy.history.metrics.metric_tables import DEFINITIONS

RECORDS = "records"
TABLES_FOLDER = "tables"

_PART_NAME = re.compile(r"[0-9a-f]{16}")
_BUFFERED_BYTES = 64 * 1024 * 1024


@cache
def schema_of(folder: str) -> pa.Schema:
    """Return the schema of a table by its folder, for example `tables/reigns`."""
    kind, _, name = folder.partition("/")
    return record_schema(name) if kind == RECORDS else table_schema(name)


def folders() -> list[str]:
    """Return the folders of all tables."""
    return [f"{TABLES_FOLDER}/{name}" for name in RUN_TABLES] + [f"{RECORDS}/{name}" for name in PAYLOAD_BY_TYPE]


@cache
def schema_digest() -> str:
    """Return a checksum of the schemas of all tables and of their definitions, by which older parts are recognised."""
    text = "".join(f"{folder} {schema_of(folder)}\n" for folder in sorted(folders()))
    return blake2b(f"{text}{DEFINITIONS}".encode(), digest_size=8).hexdigest()


def is_part_name(text: str) -> bool:
    """Return whether `PartWriter` may have made this name."""
    return _PART_NAME.fullmatch(text) is not None


def path_of(lake: Path, folder: str, part: str) -> Path:
    return lake / folder / f"{part}.parquet"


# ------------------------------------------------------------------ parts to parts


def copy_parts(lake: Path, parts: Mapping[str, Part], kept: Collection[str] | None = None) -> tuple[str, Part]:
    """Write the rows of some parts with one schema as one new part, and return its name and its entry.

    Args:
        kept: the runs whose rows are copied; None for all.

    Raises:
        OSError: the new part cannot be written, or a file of the old ones is gone.
    """
    (schema,) = {part.schema for part in parts.values()}
    runs = None if kept is None else pa.array(sorted(kept), pa.string())
    with PartWriter(lake, schema=schema) as writer:
        for folder in sorted({folder for part in parts.values() for folder in part.rows}):
            for name, part in parts.items():
                if folder in part.rows:
                    for table in _tables_in(path_of(lake, folder, name), runs):
                        writer.add(folder, table)
        return writer.name, writer.close()


def _tables_in(path: Path, runs: pa.Array | None) -> Iterator[pa.Table]:
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            if runs is not None:
                table = table.filter(pc.is_in(table["run"], value_set=runs))
            if table.num_rows:
                yield table


# ------------------------------------------------------------------ files


class PartWriter:
    """Writes the files of one part. They are on disk when `close` returns, and count once a manifest names the part.

    Args:
        schema: the digest of the schemas of the added rows; by default this software's digest.
    """

    def __init__(self, lake: Path, *, schema: str | None = None) -> None:
        self.name = uuid.uuid4().hex[:16]
        self._lake = lake
        self._schema = schema
        self._buffers: dict[str, list[pa.Table]] = {}
        self._bytes = 0
        self._rows: dict[str, int] = {}
        self._open: dict[str, tuple[BinaryIO, pq.ParquetWriter]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream, writer in self._open.values():
            writer.is_open = False  # its destructor would write to the closed file
            with contextlib.suppress(OSError):  # what could not be written; the part does not count
                stream.close()

    def add(self, folder: str, rows: pa.Table) -> None:
        """Add rows to the table of a folder.

        Raises:
            OSError: rows cannot be written.
        """
        self._buffers.setdefault(folder, []).append(rows)
        self._rows[folder] = self._rows.get(folder, 0) + rows.num_rows
        self._bytes += rows.nbytes
        if self._bytes >= _BUFFERED_BYTES:
            self._flush()

    def close(self) -> Part:
        """Write everything to disk.

        Raises:
            OSError: it cannot be written.
        """
        self._flush()
        size = 0
        for stream, writer in self._open.values():
            writer.close()
            stream.flush()
            sync_file(stream.fileno())
            size += stream.tell()
            stream.close()
        for folder in self._open:
            sync_folder(self._lake / folder)
        return Part(schema=self._schema or schema_digest(), bytes=size, rows=self._rows)

    def _flush(self) -> None:
        for folder, tables in self._buffers.items():
            table = pa.concat_tables(tables)
            self._writer(folder, table.schema).write_table(table)
        self._buffers.clear()
        self._bytes = 0

    def _writer(self, folder: str, schema: pa.Schema) -> pq.ParquetWriter:
        if folder not in self._open:
            path = path_of(self._lake, folder, self.name)
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
