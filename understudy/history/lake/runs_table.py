"""Reads and changes the table `runs` of a lake, which says which rows of the other tables count.

Each row of another table names its run and the ingest that wrote it. It counts if `runs` has this run with this ingest
in the state `whole`. The other states are of rows that do not count yet, or no longer: an ingest claims its runs before
it adds rows, and publishes them after its last table; rows of a replaced run are removed after that. So a reader sees
each run exactly once, whenever a writer was stopped.

A change is one commit that replaces the whole table, and fails if another process was faster. The commit names the
version of each other table, so that a version of `runs` is a version of the lake.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from understudy.history.lake import delta
from understudy.history.lake.columns import without_pairs
from understudy.history.lake.delta import Changed
from understudy.history.lake.errors import EarlierLake, LakeError, LaterLake, NotALake
from understudy.history.lake.layout import RUNS, is_delta_table, is_of_format_1
from understudy.history.lake.written import RunEntry
from understudy.history.reading.file_marks import FileMark
from understudy.history.storage.paths import StoragePath, parquet_file

FORMAT = 2
"""Version of the lake's format that this software writes. Lakes of format 1 were no Delta tables."""

WHOLE: Final = "whole"
"""State of rows that count."""
WRITING: Final = "writing"
"""State of rows that an ingest is adding."""
REPLACED: Final = "replaced"
"""State of rows that are to be removed."""

_FORMAT_PROPERTY = "understudy.format"
_CLAIM_LASTS_S = 3600.0
"""Age from which the rows of an ingest count as left by a killed process of another machine."""

_COMMENTS = {
    "run": "The id of the run.",
    "ingest": "The ingest that wrote its rows, as in the column of this name of the other tables.",
    "state": "`whole`: its rows count; `writing`: not yet; `replaced`: no longer, they will be removed.",
    "changed_at": "When it got this state.",
    "writer": "The host and the process that gave it this state.",
    "is_complete": "Whether no record of it is missing; the table `missing` has the evidence.",
    "missing": "The first evidence that records are missing; empty if it is complete.",
    "lines": "Lines in its event logs, readable or not.",
    "records": "Rows in the tables of records.",
    "schema": "A checksum of the schemas and definitions with which it was written.",
    "files": "Its event logs, each with its size and checksums of its beginning and end.",
}


def _described(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, metadata={"comment": _COMMENTS[name]})


_FILE = pa.struct([(name, pa.int64() if name == "bytes" else pa.string()) for name in FileMark.__struct_fields__])

SCHEMA = pa.schema(
    [
        *(_described(name, pa.string()) for name in ("run", "ingest", "state")),
        _described("changed_at", pa.timestamp("us", tz="UTC")),
        _described("writer", pa.string()),
        _described("is_complete", pa.bool_()),
        _described("missing", pa.string()),
        _described("lines", pa.int64()),
        _described("records", pa.int64()),
        _described("schema", pa.string()),
        _described("files", pa.list_(pa.field("element", _FILE))),
    ]
)
"""The columns of the table."""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What a commit of the table keeps besides its rows."""

    tables: dict[str, int] = {}
    """The version of each table with rows, by its folder, for example `tables/reigns`."""
    change: str = ""
    """The change of the lake, for `understudy lake history`; empty for steps in between."""
    vacuumed_ms: int = 0
    """When old files were deleted for the last time, or the lake was created, in ms since 1970 UTC."""
    restoring: int | None = None
    """The version to which the lake is being restored."""


class Runs:
    """One version of the table `runs`, and with it of the lake.

    Raises:
        NotALake: the folder is no lake.
        LaterLake: its format is later than this software knows.
        FileNotFoundError: there is no such version.
    """

    def __init__(self, lake: StoragePath, version: int | None = None) -> None:
        check_format(lake)
        self.lake = lake
        self._table = delta.open_table(lake / RUNS, version)
        properties = self._table.metadata().configuration
        found = properties.get(_FORMAT_PROPERTY, "")
        if not found.isdecimal():
            raise NotALake(f"{lake / RUNS} is a Delta table, and not the table of a lake: it lacks {_FORMAT_PROPERTY}")
        if int(found) > FORMAT:
            raise LaterLake(
                f"{lake} has format {found}, and this Understudy knows formats up to {FORMAT}; use the Understudy that "
                "wrote it, or a later one"
            )
        self.commit = next((msgspec.convert(found, Commit) for _, _, found in delta.own_commits(self._table)), Commit())

    @classmethod
    def create(cls, lake: StoragePath) -> Self:
        """Create the table in a folder that has none; another process may do the same."""
        with contextlib.suppress(Changed):
            delta.create_described_table(
                lake / RUNS,
                SCHEMA,
                "The runs of the lake. Rows of other tables count if their run and ingest are whole here.",
                {_FORMAT_PROPERTY: str(FORMAT)},
            )
        return cls(lake)

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def delta_table(self) -> DeltaTable:
        return self._table

    @cached_property
    def rows(self) -> pa.Table:
        """All rows, also of runs that do not count.

        Raises:
            LakeError: the version is so old that its files have been deleted.
        """
        found = [SCHEMA.empty_table()]
        for file in delta.files_of(self._table):
            try:
                with parquet_file(self.lake / RUNS / file.name) as opened:
                    found.append(opened.read().cast(SCHEMA))
            except FileNotFoundError:
                raise LakeError(f"the files of version {self.version} of {self.lake} have been deleted") from None
        return pa.concat_tables(found)

    @cached_property
    def whole(self) -> Mapping[str, RunEntry]:
        """The runs that count, sorted by their ids."""
        return dict(sorted(_entries(self.rows.filter(pc.equal(self.rows["state"], WHOLE)))))

    def whole_of(self, runs: Collection[str]) -> Mapping[str, RunEntry]:
        """Return some of `whole`; the others, of which there may be many thousands, are not looked at."""
        wanted = pc.is_in(self.rows["run"], value_set=pa.array(sorted(runs), pa.string()))
        return dict(_entries(self.rows.filter(pc.and_(wanted, pc.equal(self.rows["state"], WHOLE)))))

    @cached_property
    def uncounted(self) -> Mapping[tuple[str, str], str]:
        """The state of each run and ingest whose rows do not count."""
        rows = self.rows.filter(pc.not_equal(self.rows["state"], WHOLE)).select(["run", "ingest", "state"]).to_pylist()
        return {(row["run"], row["ingest"]): row["state"] for row in rows}

    def changes(self) -> Iterator[tuple[int, int, str]]:
        """Yield the changes up to this version, newest first: the version, ms since 1970 UTC, and the change.

        Steps in between, such as the removal of rows that do not count, are left out.
        """
        for version, at_ms, metadata in delta.own_commits(self._table):
            if change := msgspec.convert(metadata, Commit).change:
                yield version, at_ms, change

    def left_behind(self, active: Collection[str]) -> frozenset[tuple[str, str]]:
        """Return the runs and ingests whose rows are to be removed: replaced ones, and rows of killed processes.

        Args:
            active: the ingests of this process that are at work.
        """
        rows = self.rows.filter(pc.not_equal(self.rows["state"], WHOLE)).drop_columns(["files"]).to_pylist()
        return frozenset(
            (row["run"], row["ingest"])
            for row in rows
            if row["state"] == REPLACED or (row["ingest"] not in active and not _is_at_work(row))
        )

    def changed(
        self,
        dropped: Collection[tuple[str, str]],
        added: Sequence[tuple[str, RunEntry, str]],
        commit: Commit,
    ) -> Runs:
        """Publish the next version, and return it.

        Args:
            dropped: runs and ingests whose rows leave the table.
            added: run, entry and state of each new row.
            commit: kept with the commit; the versions of tables that it does not name stay.

        Raises:
            Changed: another process has published a version since this one was read.
        """
        rows = without_pairs(self.rows, dropped)
        if added:
            rows = pa.concat_tables([rows, _rows_of(added)])
        delta.overwrite(self._table, rows.combine_chunks(), msgspec.to_builtins(commit))
        return Runs(self.lake)


def check_format(lake: StoragePath) -> None:
    """Check that a folder is a lake of Delta tables.

    Raises:
        NotALake: it is something else; `EarlierLake` for a lake of format 1.
    """
    if is_delta_table(lake / RUNS):
        return
    if is_of_format_1(lake):
        raise EarlierLake(
            f"{lake} is a lake of an earlier Understudy, before lakes were Delta tables; ingest its event logs into a "
            "new folder: `understudy ingest RUN ... --lake NEW`"
        )
    raise NotALake(f"{lake} is not a lake: it has no table {RUNS}; `understudy ingest RUN --lake {lake}` makes one")


def change_runs(lake: StoragePath, change: Callable[[Runs], Runs]) -> Runs:
    """Change the newest version of the table; try again if another process was faster.

    Raises:
        LakeBusy: others were faster again and again.
        LakeError: it cannot be read or written, or a restore of the lake has not been finished.
    """
    return delta.repeated(lake, lambda: change(Runs(lake)))


def check_is_not_restored(runs: Runs) -> None:
    """Raises LakeError if a restore of the lake has not been finished."""
    if (version := runs.commit.restoring) is not None:
        raise LakeError(
            f"{runs.lake} is being restored to version {version}; if no process does this any more, run `understudy "
            f"lake restore {runs.lake} {version}` again"
        )


def _entries(rows: pa.Table) -> Iterator[tuple[str, RunEntry]]:
    names = RunEntry.__struct_fields__
    for row in rows.select(["run", *names]).to_pylist():
        files = tuple(FileMark(**file) for file in row["files"])
        yield row["run"], RunEntry(**{name: row[name] for name in names if name != "files"}, files=files)


def _rows_of(added: Sequence[tuple[str, RunEntry, str]]) -> pa.Table:
    now, writer = 1000 * delta.now_ms(), _this_process()
    rows = [
        {
            "run": run,
            "state": state,
            "changed_at": now,
            "writer": writer,
            "is_complete": not entry.missing,
            **msgspec.to_builtins(entry),
        }
        for run, entry, state in added
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _this_process() -> str:
    return f"{socket.gethostname()} {os.getpid()}"


def _is_at_work(row: Mapping[str, Any]) -> bool:
    """Return whether the process that writes a run may still be at work."""
    if time.time() - row["changed_at"].timestamp() > _CLAIM_LASTS_S:
        return False
    host, _, process = row["writer"].rpartition(" ")
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return int(process) != os.getpid()
