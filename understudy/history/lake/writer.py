"""Changes a lake: one process at a time adds, replaces and removes runs, each change as a new version."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Self

from understudy.history.lake import manifest as manifests
from understudy.history.lake.manifest import EMPTY, LakeBusy, LakeError, Manifest, NotALake, Part, RunEntry
from understudy.history.lake.parts import RECORDS, TABLES_FOLDER, copy_parts, is_part_name, path_of
from understudy.history.lake.runs_to_parts import WrittenRun

LOCK = "lock"

KEPT_VERSIONS = 2
"""Number of versions whose files are kept: a query on the version before the newest can still read them."""

SMALL_PART_BYTES = 2 * 1024 * 1024
"""Size below which parts are merged once there are `SMALL_PARTS` of them."""
SMALL_PARTS = 8
MERGED_BYTES = 64 * 1024 * 1024
"""Size at about which merging stops."""

SEEDS = "seeds"
"""Folder of the ledger of seeds and their event logs (`understudy.spark.seed_ledger`)."""

_OWN_NAMES = frozenset({LOCK, manifests.FOLDER, RECORDS, TABLES_FOLDER, SEEDS})


class UnknownRun(LakeError):
    """A run that is to be removed is not in the lake."""


class LakeWriter:
    """Holds the lock of a lake while its block runs, and creates the lake if the folder is missing or empty.

    Raises:
        NotALake: the folder holds something else.
        LaterLake: its format is later than this software knows.
        LakeBusy: another process is writing to it.
        OSError: it cannot be read or written.
    """

    def __init__(self, lake: Path) -> None:
        self.lake = lake.absolute()
        self.manifest = EMPTY
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        check_is_lake(self.lake)
        self.lake.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, _locked(self.lake))
            self.manifest = manifests.read_newest(self.lake) or EMPTY
            self._delete_unreferenced(KEPT_VERSIONS)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def commit(self, written: Iterable[WrittenRun]) -> None:
        """Add the runs of new parts, in place of runs with the same ids.

        Raises:
            LakeBusy: another process has changed the lake, in spite of the lock.
            OSError: it cannot be written; the version before still counts.
        """
        added = [part for part in written if part.runs]
        new = {run for part in added for run in part.runs}
        parts, runs = self._without(new)
        for part in added:
            parts[part.name] = part.part
            runs |= part.runs
        self._publish(parts, runs, KEPT_VERSIONS)

    def remove(self, removed: Collection[str]) -> None:
        """Remove runs, and delete all files with their rows.

        Raises:
            UnknownRun: one of them is not in the lake.
            LakeBusy, OSError: as for `commit`.
        """
        self._delete_unreferenced(1)  # also what a removal that was killed has left
        for run in removed:
            if run not in self.manifest.runs:
                raise UnknownRun(f"{self.lake} has no run {run!r}; it has {len(self.manifest.runs)} others")
        self._publish(*self._without(removed), 1)

    def compact(self) -> bool:
        """Merge small parts, if there are many; return whether there were. Raises as `commit`."""
        merged = False
        for schema in {part.schema for part in self.manifest.parts.values()}:
            while small := self._small_parts(schema):
                name, part = copy_parts(self.lake, small)
                parts = {each: kept for each, kept in self.manifest.parts.items() if each not in small}
                runs = {run: _moved(entry, small, name) for run, entry in self.manifest.runs.items()}
                self._publish(parts | {name: part}, runs, KEPT_VERSIONS)
                merged = True
        return merged

    def _small_parts(self, schema: str) -> dict[str, Part]:
        small = {
            name: part
            for name, part in self.manifest.parts.items()
            if part.schema == schema and part.bytes < SMALL_PART_BYTES
        }
        if len(small) < SMALL_PARTS:
            return {}
        chosen: dict[str, Part] = {}
        for name, part in small.items():
            chosen[name] = part
            if sum(each.bytes for each in chosen.values()) >= MERGED_BYTES:
                break
        return chosen

    def _without(self, removed: Collection[str]) -> tuple[dict[str, Part], dict[str, RunEntry]]:
        """Return parts and runs without some runs; a part that also holds other runs is written anew."""
        runs = {run: entry for run, entry in self.manifest.runs.items() if run not in removed}
        parts = dict(self.manifest.parts)
        for name in sorted({self.manifest.runs[run].part for run in removed if run in self.manifest.runs}):
            kept = {run for run, entry in runs.items() if entry.part == name}
            old = {name: parts.pop(name)}
            if kept:
                copy, part = copy_parts(self.lake, old, kept)
                parts[copy] = part
                runs = {run: _moved(entry, old, copy) for run, entry in runs.items()}
        return parts, runs

    def _publish(self, parts: dict[str, Part], runs: dict[str, RunEntry], kept_versions: int) -> None:
        for name, part in parts.items():
            if name not in self.manifest.parts:
                _check_files(self.lake, name, part)
        version = self.manifest.version + 1
        newest = Manifest(format=manifests.FORMAT, version=version, runs=dict(sorted(runs.items())), parts=parts)
        manifests.publish(self.lake, newest)
        self.manifest = newest
        self._delete_unreferenced(kept_versions)

    def _delete_unreferenced(self, kept_versions: int) -> None:
        """Delete old manifests, and the files that no remaining manifest names."""
        manifests.keep_newest(self.lake, kept_versions)
        kept = (manifests.read_version(self.lake, version) for version in manifests.versions(self.lake))
        referenced = {
            path_of(self.lake, folder, name)
            for each in kept
            for name, part in each.parts.items()
            for folder in part.rows
        }
        for kind in (RECORDS, TABLES_FOLDER):
            for path in sorted((self.lake / kind).glob("*/*.parquet")):
                if path not in referenced and is_part_name(path.stem):
                    path.unlink()


def check_is_lake(lake: Path) -> None:
    """Check that a folder is a lake, an unfinished lake of a killed writer, empty, or missing.

    Raises:
        NotALake: it is something else.
        OSError: it cannot be listed.
    """
    try:
        names = {path.name for path in lake.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise NotALake(f"{lake} is a file; give a folder") from None
    if not manifests.versions(lake) and (strange := sorted(names - _OWN_NAMES)):
        raise NotALake(f"{lake} is not a lake: it holds {strange[0]} and no manifest; give a new folder, or a lake")


def _locked(lake: Path) -> int:
    descriptor = os.open(lake / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise LakeBusy(f"another process is writing to {lake}; wait until it has ended") from None
        raise
    return descriptor


def _check_files(lake: Path, name: str, part: Part) -> None:
    for folder in part.rows:
        if not path_of(lake, folder, name).exists():
            raise LakeBusy(f"another process has deleted {path_of(lake, folder, name)}; run the command again")


def _moved(entry: RunEntry, old: Collection[str], new: str) -> RunEntry:
    if entry.part not in old:
        return entry
    return RunEntry(part=new, files=entry.files, lines=entry.lines, records=entry.records)
