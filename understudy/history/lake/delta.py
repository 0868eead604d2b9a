"""Reads and changes the Delta tables of a lake with `deltalake`, which needs no Java. Other modules only name its type.

The Parquet files of a table are written by others (`parts`). A commit here adds files to the table, and removes files
from it. Two processes may commit at the same time: additions never conflict, and a removal of a file that another
process has removed fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, convert_to_deltalake, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from understudy.history.lake.errors import LakeBusy, LakeError
from understudy.history.lake.layout import LOG, is_delta_table
from understudy.history.lake.written import TableFile
from understudy.history.storage.filesystems import table_options
from understudy.history.storage.paths import StoragePath, UrlPath, storage_path
from understudy.history.storage.reasons import BRANCH, reason_of

T = TypeVar("T")

_PROPERTIES = {
    "delta.logRetentionDuration": "interval 30 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""Properties of all tables of a lake."""
_OWN = "understudy"
"""Name of the metadata of commits by `overwrite`."""
_ATTEMPTS = 50
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
_STATISTICS = ("run", "ingest")
"""Columns whose smallest and largest values are kept with each file."""
_LAST = chr(0x10FFFF)
"""A text after all others, for a file of another program without statistics."""


class Changed(Exception):
    """Another process has changed the table since it was opened."""


def repeated(path: StoragePath, change: Callable[[], T]) -> T:
    """Make a change; make it again from the newest version if another process was faster.

    Raises:
        LakeBusy: others were faster again and again.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(Changed):
            return change()
    raise LakeBusy(f"other processes change {path} again and again; run the command again later")


def open_table(folder: StoragePath, version: int | None = None) -> DeltaTable:
    """Open a version of a table; by default the newest one.

    Raises:
        FileNotFoundError: there is no table, or no such version.
        LakeError: it cannot be read.
    """
    with _errors(folder, "read"):
        try:
            return DeltaTable(str(folder), version=version, storage_options=table_options(folder))
        except TableNotFoundError as error:
            raise FileNotFoundError(f"{folder} is not a Delta table: {error}") from None
        except DeltaError:
            if version is None or DeltaTable(str(folder), storage_options=table_options(folder)).version() >= version:
                raise
            raise FileNotFoundError(f"{folder} has no version {version}") from None


def create_table(folder: StoragePath, schema: pa.Schema, files: Sequence[TableFile]) -> int:
    """Create a table with some files; return its version. The metadata `comment` of a field becomes its comment.

    Raises:
        Changed: there is a table already.
        LakeError: it cannot be written.
    """
    fields = Schema.from_arrow(schema)
    with _creating(folder):
        create_table_with_add_actions(
            str(folder),
            fields,
            list(map(_added, files)),
            "error",
            configuration=_PROPERTIES,
            storage_options=table_options(folder),
        )
    return 0


def create_described_table(
    folder: StoragePath, schema: pa.Schema, description: str, properties: Mapping[str, str]
) -> None:
    """Create a table without rows, with a description and properties. Raises as `create_table`."""
    with _creating(folder):
        DeltaTable.create(
            str(folder), schema, "error", description=description,
            configuration={**_PROPERTIES, **properties}, raise_if_key_not_exists=False,
            storage_options=table_options(folder),
        )  # fmt: skip


def adopt_files(folder: StoragePath) -> None:
    """Make a table of a folder of Parquet files, which it then has; nothing is copied.

    Raises:
        Changed: there is a table already.
        LakeError: it cannot be written, or a file cannot be read.
    """
    with _creating(folder):
        convert_to_deltalake(str(folder), storage_options=table_options(folder))


def fit_schema(table: DeltaTable, schema: pa.Schema) -> None:
    """Give a table the columns, and the fields of columns, that it lacks.

    Raises:
        LakeError: a column has another type, or it cannot be written.
    """
    folder = _folder_of(table)
    present = schema_of_table(table)
    for field in schema:
        place = present.get_field_index(field.name)
        if place >= 0 and not _can_become(present.field(place).type, field.type):
            raise LakeError(
                f"the column {field.name} of {folder} has the type {present.field(place).type}, and this Understudy "
                f"writes {field.type}; ingest the event logs into a new lake"
            )
    if not _has_all(present, schema):
        with _errors(folder, "written"):
            write_deltalake(table, schema.empty_table(), mode="append", schema_mode="merge")
            table.update_incremental()


def commit_files(table: DeltaTable, added: Sequence[TableFile], removed: Sequence[TableFile] = ()) -> int:
    """Add files to a table and remove others in one step; return the version.

    Raises:
        Changed: another process has removed one of them, or has changed the schema.
        LakeError: it cannot be written.
    """
    now = now_ms()
    actions: list[AddAction | RemoveAction] = [
        *(RemoveAction(file.name, data_change=True, deletion_timestamp=now, size=file.bytes) for file in removed),
        *map(_added, added),
    ]
    with _errors(_folder_of(table), "written"):
        table.create_write_transaction(actions, "append", table.schema())
        table.update_incremental()
    return table.version()


def append(table: DeltaTable, rows: pa.Table) -> None:
    """Add rows to a table. Raises as `commit_files`."""
    with _errors(_folder_of(table), "written"):
        write_deltalake(table, rows, mode="append")


def overwrite(table: DeltaTable, rows: pa.Table, metadata: Mapping[str, Any]) -> None:
    """Replace all rows of a table.

    Args:
        metadata: kept with the commit, for `own_commits`.

    Raises:
        Changed: another process has made a commit since the table was opened.
        LakeError: it cannot be written.
    """
    properties = CommitProperties(custom_metadata={_OWN: json.dumps(metadata)}, max_commit_retries=0)
    with _errors(_folder_of(table), "written"):
        write_deltalake(table, rows, mode="overwrite", commit_properties=properties)


def own_commits(table: DeltaTable) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the commits of a table by `overwrite` up to its version, newest first: version, ms since 1970, metadata.

    They are read from the table's log: `DeltaTable.history` gives the newest commits the numbers of an older version's.

    Raises:
        LakeError: the log cannot be read.
    """
    folder = _folder_of(table)
    for version in range(table.version(), -1, -1):
        try:
            lines = (folder / LOG / f"{version:020}.json").read_text().splitlines()
            found: dict[str, Any] = next(
                (json.loads(line)["commitInfo"] for line in lines if '"commitInfo"' in line), {}
            )
        except FileNotFoundError:
            return  # commits that are old enough are deleted, once a checkpoint has what they did
        except (OSError, ValueError) as error:
            raise LakeError(f"the log of the Delta table {folder} cannot be read: {error}") from None
        if _OWN in found:
            yield version, found["timestamp"], json.loads(found[_OWN])


def files_of(table: DeltaTable) -> list[TableFile]:
    """Return the files of a version of a table, in the order in which they were added."""
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [
        TableFile(
            name=unquote(each["path"]),
            bytes=each["size_bytes"],
            rows=each["num_records"] or 0,
            runs=(each.get("min.run") or "", each.get("max.run") or _LAST),
            ingests=(each.get("min.ingest") or "", each.get("max.ingest") or _LAST),
        )
        for each in sorted(found, key=lambda each: (each["modification_time"], each["path"]))
    ]


def schema_of_table(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def restore(table: DeltaTable, version: int) -> int:
    """Give a table the files of an earlier version, as a new version unless it is the newest; return its number.

    Raises:
        LakeError: a file of the earlier version has been deleted.
    """
    if version == table.version():
        return version
    with _errors(_folder_of(table), "restored"):
        table.restore(version)
    return table.version()


def vacuum(table: DeltaTable, hours: int, *, unknown: bool) -> int:
    """Delete files that have not been in a table for a number of hours; return their number.

    Args:
        unknown: also delete files of this age that never were in it, as a killed process leaves them.
    """
    with _errors(_folder_of(table), "cleaned"):
        return len(table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=unknown))


@contextlib.contextmanager
def _creating(folder: StoragePath) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with _errors(folder, "written"):
        try:
            yield
        except DeltaError:
            if is_delta_table(folder):
                raise Changed from None
            raise


@contextlib.contextmanager
def _errors(folder: StoragePath, done: str) -> Iterator[None]:
    try:
        yield
    except CommitFailedError:
        raise Changed from None
    except FileNotFoundError:
        raise
    except (DeltaError, OSError) as error:
        if number := _OS_ERROR.search(str(error)):
            # Of a disk that is full the system names no file; a store has to be named.
            place = str(folder) if isinstance(folder, UrlPath) else None
            raise OSError(int(number[1]), os.strerror(int(number[1])), place) from None
        text = str(error).strip()
        reason = reason_of(text if BRANCH in text else text.partition("\n")[0])
        raise LakeError(f"the Delta table {folder} cannot be {done}: {reason}") from None


def _added(file: TableFile) -> AddAction:
    smallest, largest = zip(file.runs, file.ingests, strict=True)
    stats = {
        "numRecords": file.rows,
        "minValues": dict(zip(_STATISTICS, smallest, strict=True)),
        "maxValues": dict(zip(_STATISTICS, largest, strict=True)),
        "nullCount": dict.fromkeys(_STATISTICS, 0),
    }
    return AddAction(file.name, file.bytes, {}, now_ms(), data_change=True, stats=json.dumps(stats))


def _has_all(present: pa.Schema, wanted: pa.Schema) -> bool:
    names = present.names
    return all(field.name in names and present.field(field.name).type.equals(field.type) for field in wanted)


def _can_become(present: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column keeps its type, or only gets more fields in its structs."""
    if pa.types.is_list(present) and pa.types.is_list(wanted):
        return _can_become(present.value_type, wanted.value_type)
    if pa.types.is_struct(present) and pa.types.is_struct(wanted):
        fields = {field.name: field.type for field in present}
        return all(_can_become(fields.get(field.name, field.type), field.type) for field in wanted)
    return bool(present.equals(wanted))


def _folder_of(table: DeltaTable) -> StoragePath:
    uri = table.table_uri.rstrip("/")
    return storage_path(uri if uri.startswith("file:") else unquote(uri))


def now_ms() -> int:
    """Return the wall clock, as ms since 1970 UTC."""
    return time.time_ns() // 1_000_000
