"""Changes a lake: adds, replaces and removes runs, each change as a new version.

Several processes may change a lake at the same time. Each step is a commit that adds to what others have done, or fails
and is made again (`runs_table` has the order of the steps).
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from understudy.history.lake import delta
from understudy.history.lake.delta import Changed
from understudy.history.lake.errors import LakeBusy, LakeError, NotALake
from understudy.history.lake.layout import RUNS, foreign_name, is_delta_table, is_lake, table_folders
from understudy.history.lake.parts import described_schema, rewritten
from understudy.history.lake.runs_table import (
    REPLACED,
    WHOLE,
    WRITING,
    Commit,
    Runs,
    change_runs,
    check_format,
    check_is_not_restored,
)
from understudy.history.lake.runs_to_parts import WrittenRun
from understudy.history.lake.written import RunEntry, TableFile
from understudy.history.storage.paths import StoragePath, UrlPath, results_of

SMALL_FILE_BYTES = 2 * 1024 * 1024
"""Size below which files of a table are merged once there are `SMALL_FILES` of them."""
SMALL_FILES = 8
MERGED_BYTES = 64 * 1024 * 1024
"""Size at about which merging stops."""

KEPT_HOURS = 1
"""Time for which files that have left a table are kept: a query that began with them can still read them."""
UNKNOWN_HOURS = 24
"""Age from which a file that never was in its table counts as left by a killed process."""
_VACUUM_EVERY_MS = 3_600_000

T = TypeVar("T")

_MAX_APPEND_S = 1800.0
"""Time after which an ingest gives up its claim: half the time after which others may take it for dead."""
_AT_WORK: set[str] = set()
"""The ingests of this process that are adding rows."""


class UnknownRun(LakeError):
    """A run that is to be removed is not in the lake."""


class LakeWriter:
    """Changes a lake, and creates it if the folder is missing or empty. Rows of killed writers are removed first.

    Attributes:
        runs: the runs of the newest version that this writer has seen.
        version: its number.

    Raises:
        NotALake: the folder holds something else.
        LaterLake: its format is later than this software knows.
        LakeError: a restore of the lake has not been finished.
        OSError: it cannot be read or written.
    """

    def __init__(self, lake: StoragePath) -> None:
        self.lake = lake.absolute()
        check_is_lake(self.lake)
        self._with_small_files: set[str] = set()
        if is_lake(self.lake):
            self._runs = Runs(self.lake)
        else:
            self.lake.mkdir(parents=True, exist_ok=True)
            self._runs = Runs.create(self.lake)
        check_is_not_restored(self._runs)
        self._remove_rows()

    @property
    def runs(self) -> Mapping[str, RunEntry]:
        return self._runs.whole

    @property
    def version(self) -> int:
        return self._runs.version

    def commit(self, written: Iterable[WrittenRun]) -> frozenset[str]:
        """Add the runs of new parts, in place of runs with the same ids.

        Returns:
            The runs that another process has added meanwhile, with the same or later logs: these rows stay.

        Raises:
            LakeBusy: other processes change the lake again and again.
            LakeError: it cannot be written; the version before still counts.
        """
        parts = [part for part in written if part.runs]
        if not parts:
            return frozenset()
        entries = [(run, entry) for part in parts for run, entry in part.runs.items()]
        known = {run: found.ingest for run, found in self._runs.whole_of([run for run, _ in entries]).items()}
        ingests = {part.name for part in parts}
        _AT_WORK.update(ingests)
        try:
            claimed_at = time.monotonic()
            self._change(lambda runs: runs.changed((), [(*each, WRITING) for each in entries], _next(runs)))
            tables = self._append(parts, claimed_at)
            kept: set[str] = set()
            self._change(lambda runs: _published(runs, entries, known, tables, kept))
        finally:
            _AT_WORK.difference_update(ingests)
        self._remove_rows()
        return frozenset(kept)

    def remove(self, removed: Collection[str]) -> None:
        """Remove runs, and delete all files with their rows, also of earlier versions.

        Raises:
            UnknownRun: one of them is not in the lake.
            LakeBusy, LakeError: as for `commit`.
        """
        self._delete_what_left_the_tables()  # also what a removal that was killed has left
        self._change(lambda runs: _without(runs, removed))
        self._remove_rows()
        self._delete_what_left_the_tables()

    def compact(self) -> bool:
        """Merge small files of tables that this writer has changed, if there are many; return whether there were.

        Raises:
            LakeBusy, LakeError: as for `commit`.
        """
        tables = {}
        for folder in sorted(self._with_small_files):
            table, is_merged = self._rewrite(folder, _small_files, frozenset())
            if is_merged:
                tables[folder] = table.version()
        if tables:
            self._change(lambda runs: runs.changed((), (), _next(runs, tables, change="small files merged")))
        self._with_small_files.clear()
        return bool(tables)

    def vacuum(self, kept_hours: int = KEPT_HOURS, unknown_hours: int = UNKNOWN_HOURS) -> int:
        """Delete files that left their tables some hours ago, and older files that never were in one; return how many.

        Versions whose files are deleted can no longer be read or restored.
        """

        def delete(folder: str) -> int:
            table = delta.open_table(self.lake / folder)
            left = delta.vacuum(table, kept_hours, unknown=False)
            return left + delta.vacuum(table, unknown_hours, unknown=True)

        deleted = sum(_for_each(self.lake, (RUNS, *table_folders(self.lake)), delete))
        self._change(lambda runs: runs.changed((), (), _next(runs, vacuumed_ms=delta.now_ms())))
        return deleted

    def vacuum_if_due(self) -> None:
        """Delete old files as `vacuum` does, at most once an hour."""
        if delta.now_ms() - self._runs.commit.vacuumed_ms >= _VACUUM_EVERY_MS:
            self.vacuum()

    # ------------------------------------------------------------------ steps

    def _change(self, change: Callable[[Runs], Runs]) -> None:
        def checked(runs: Runs) -> Runs:
            check_is_not_restored(runs)
            return change(runs)

        self._runs = change_runs(self.lake, checked)

    def _append(self, parts: Sequence[WrittenRun], claimed_at: float) -> dict[str, int]:
        """Add the files of parts to their tables; return the versions of these tables, by folder."""
        files: dict[str, list[TableFile]] = defaultdict(list)
        for part in parts:
            for folder, own in part.part.files.items():
                files[folder] += own

        def append(folder: str) -> int:
            if time.monotonic() - claimed_at > _MAX_APPEND_S:
                raise LakeBusy(f"{self.lake} could not be written in {_MAX_APPEND_S / 60:.0f} minutes; run it again")
            return self._append_files(folder, schemas[folder], files[folder])

        folders = sorted(files)
        # Their comments are parsed from our sources, and `ast` of Python 3.11 works in one thread at a time.
        schemas = {folder: described_schema(folder) for folder in folders}
        return dict(zip(folders, _for_each(self.lake, folders, append), strict=True))

    def _append_files(self, folder: str, schema: pa.Schema, files: Sequence[TableFile]) -> int:
        path = self.lake / folder

        def append() -> int:
            if not is_delta_table(path):
                self._note_small_files(folder, files)
                return delta.create_table(path, schema, files)
            table = delta.open_table(path)
            delta.fit_schema(table, schema)
            self._note_small_files(folder, [*delta.files_of(table), *files])
            return delta.commit_files(table, files)

        return delta.repeated(path, append)

    def _delete_what_left_the_tables(self) -> None:
        def delete(folder: str) -> None:
            delta.vacuum(delta.open_table(self.lake / folder), 0, unknown=False)

        deque(_for_each(self.lake, table_folders(self.lake), delete), maxlen=0)

    def _note_small_files(self, folder: str, files: Sequence[TableFile]) -> None:
        if _small_files(files):
            self._with_small_files.add(folder)

    def _remove_rows(self) -> None:
        """Remove the rows of replaced runs and of killed writers."""
        left = self._runs.left_behind(_AT_WORK)
        if not left:
            return
        ingests = sorted({ingest for _, ingest in left})

        def with_rows(files: Sequence[TableFile]) -> list[list[TableFile]]:
            return [[file] for file in files if any(file.ingests[0] <= each <= file.ingests[1] for each in ingests)]

        emptied: set[str] = set()

        def rewrite(folder: str) -> int:
            table, _ = self._rewrite(folder, with_rows, left)
            if not delta.files_of(table):
                emptied.add(folder)
            return table.version()

        folders = table_folders(self.lake)
        # Also a version that a killed process has left without these rows has to be named.
        tables = dict(zip(folders, _for_each(self.lake, folders, rewrite), strict=True))
        self._change(lambda runs: runs.changed(left, (), _next(runs, tables, emptied)))

    def _rewrite(
        self,
        folder: str,
        choose: Callable[[Sequence[TableFile]], list[list[TableFile]]],
        dropped: Collection[tuple[str, str]],
    ) -> tuple[DeltaTable, bool]:
        """Write some files of a table anew; return the version of the table without them, and whether there were any.

        Args:
            choose: returns groups of files, each of which becomes one file.
            dropped: the runs and ingests whose rows are left out.
        """
        path = self.lake / folder

        def rewrite() -> tuple[DeltaTable, bool]:
            table = delta.open_table(path)
            groups = choose(delta.files_of(table))
            if not groups:
                return table, False
            try:
                new = [rewritten(path, files, dropped) for files in groups]
            except FileNotFoundError:  # another process has written the file anew, and deleted it
                raise Changed from None
            old = [file for files in groups for file in files]
            delta.commit_files(table, [file for file in new if file is not None], old)
            return table, True

        return delta.repeated(path, rewrite)


def restore(lake: StoragePath, version: int) -> int:
    """Give a lake the runs and rows of an earlier version, as a new version; return its number.

    It may be ended at any moment; the same call then continues.

    Raises:
        LakeError: there is no such version, its files have been deleted, or another restore has not been finished.
    """
    lake = lake.absolute()
    check_format(lake)
    try:
        wanted = Runs(lake, version)
    except FileNotFoundError:
        raise LakeError(f"{lake} has no version {version}; `understudy lake history {lake}` lists them") from None
    _check_has_files(wanted)

    def begun(runs: Runs) -> Runs:
        if runs.commit.restoring not in (None, version):
            check_is_not_restored(runs)
        return runs.changed((), (), _next(runs, restoring=version))

    change_runs(lake, begun)

    def table_restored(folder: str) -> int | None:
        table = delta.open_table(lake / folder)
        if folder in wanted.commit.tables:
            return delta.restore(table, wanted.commit.tables[folder])
        delta.commit_files(table, (), delta.files_of(table))
        return None

    folders = table_folders(lake)
    restored = zip(folders, _for_each(lake, folders, table_restored), strict=True)
    tables = {folder: number for folder, number in restored if number is not None}

    def ended(runs: Runs) -> Runs:
        present = [(run, entry.ingest) for run, entry in runs.whole.items()]
        added = [(run, entry, WHOLE) for run, entry in wanted.whole.items()]
        # An ingest that is at work may have lost the rows that it has added: it finds that its claim is gone.
        present += runs.uncounted
        added += [(run, _claim(ingest), REPLACED) for run, ingest in {*runs.uncounted, *wanted.uncounted}]
        commit = msgspec.structs.replace(
            runs.commit, tables=tables, change=f"restored version {version}", restoring=None
        )
        return runs.changed(present, added, commit)

    return change_runs(lake, ended).version


def _check_has_files(wanted: Runs) -> None:
    """Raises LakeError if a file of a version has been deleted."""

    def has_files(folder: str) -> bool:
        version = wanted.version if folder == RUNS else wanted.commit.tables[folder]
        files = delta.files_of(delta.open_table(wanted.lake / folder, version))
        return all((wanted.lake / folder / file.name).exists() for file in files)

    if not all(_for_each(wanted.lake, (RUNS, *wanted.commit.tables), has_files)):
        raise LakeError(f"the files of version {wanted.version} of {wanted.lake} have been deleted")


def _for_each(lake: StoragePath, folders: Sequence[str], work: Callable[[str], T]) -> Iterator[T]:
    """Yield the results of work on tables, in their order."""
    return results_of(work, folders, is_stored=isinstance(lake, UrlPath))


def _claim(ingest: str) -> RunEntry:
    return RunEntry(ingest=ingest, schema="", files=(), lines=0, records=0, missing="")


def check_is_lake(lake: StoragePath) -> None:
    """Check that a folder is a lake, an unfinished lake of a killed writer, empty, or missing.

    Raises:
        NotALake: it is something else; `EarlierLake` for a lake of an earlier format.
        OSError: it cannot be listed.
    """
    if is_lake(lake):
        check_format(lake)
        return
    try:
        strange = foreign_name(lake)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise NotALake(f"{lake} is a file; give a folder") from None
    if strange is not None:
        raise NotALake(f"{lake} is not a lake: it holds {strange} and no table {RUNS}; give a new folder, or a lake")


# ------------------------------------------------------------------ changes of the table `runs`


def _next(
    runs: Runs,
    tables: Mapping[str, int] | None = None,
    emptied: Collection[str] = (),
    *,
    change: str = "",
    vacuumed_ms: int | None = None,
    restoring: int | None = None,
) -> Commit:
    """Return what the next commit keeps: the versions of all tables, newer ones in place of older ones."""
    newest = dict(runs.commit.tables)
    for folder, version in (tables or {}).items():
        newest[folder] = max(version, newest.get(folder, 0))
        if folder in emptied and newest[folder] == version:
            del newest[folder]
    vacuumed_ms = vacuumed_ms or runs.commit.vacuumed_ms or delta.now_ms()
    return Commit(tables=newest, change=change, vacuumed_ms=vacuumed_ms, restoring=restoring)


def _published(
    runs: Runs,
    entries: Sequence[tuple[str, RunEntry]],
    known: Mapping[str, str],
    tables: Mapping[str, int],
    kept: set[str],
) -> Runs:
    """Make the claimed runs of an ingest whole, and the runs that they replace replaced.

    Args:
        known: the ingests that the claimed runs had when this one began.
        kept: receives the runs that another ingest has published meanwhile, with the same or later logs.
    """
    kept.clear()
    dropped: list[tuple[str, str]] = []
    added: list[tuple[str, RunEntry, str]] = []
    present = runs.whole_of([run for run, _ in entries])
    for run, entry in entries:
        if runs.uncounted.get((run, entry.ingest)) != WRITING:
            raise LakeBusy(
                f"another process took this one for dead and has removed the rows of run {run!r} from {runs.lake}; run "
                "the command again"
            )
        dropped.append((run, entry.ingest))
        other = present.get(run)
        if other is not None and other.ingest != known.get(run) and other.bytes >= entry.bytes:
            kept.add(run)
            added.append((run, entry, REPLACED))
            continue
        added.append((run, entry, WHOLE))
        if other is not None:
            dropped.append((run, other.ingest))
            added.append((run, other, REPLACED))
    changed = [f"{count} {what}" for what, count in _counts(entries, known, kept).items() if count]
    return runs.changed(dropped, added, _next(runs, tables, change=f"runs ingested: {', '.join(changed) or 'none'}"))


def _counts(entries: Sequence[tuple[str, RunEntry]], known: Collection[str], kept: Collection[str]) -> dict[str, int]:
    runs = {run for run, _ in entries} - set(kept)
    return {"added": len(runs - set(known)), "replaced": len(runs & set(known))}


def _without(runs: Runs, removed: Collection[str]) -> Runs:
    for run in removed:
        if run not in runs.whole:
            raise UnknownRun(f"{runs.lake} has no run {run!r}; it has {len(runs.whole)} others")
    entries = [(run, runs.whole[run]) for run in removed]
    dropped = [(run, entry.ingest) for run, entry in entries]
    added = [(run, entry, REPLACED) for run, entry in entries]
    return runs.changed(dropped, added, _next(runs, change=f"runs removed: {len(entries)}"))


def _small_files(files: Sequence[TableFile]) -> list[list[TableFile]]:
    """Return the files that become one; none if there are few small ones."""
    small = [file for file in files if file.bytes < SMALL_FILE_BYTES]
    if len(small) < SMALL_FILES:
        return []
    groups: list[list[TableFile]] = [[]]
    size = 0
    for file in small:
        if size >= MERGED_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.bytes
    return [group for group in groups if len(group) > 1]
