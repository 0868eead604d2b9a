"""Reads and publishes the manifest of a lake, which alone decides which files count.

Each change of the lake publishes the next version of its manifest. A manifest is written to a temporary
file, synced to disk, and linked to its final name, which fails if that name exists. So a reader sees a whole version or
the one before it, whenever a writer was stopped, and one of two writers fails.
"""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import msgspec

from understudy.history.reading.file_marks import FileMark

FORMAT = 1
"""Version of the lake's format that this software writes."""

FOLDER = "manifest"

_NAME = re.compile(r"(\d{10})\.json")


class LakeError(Exception):
    """An error of a lake that its user has to correct. The message names the error and the remedy."""


class NotALake(LakeError):
    """The folder is not a lake, or its manifest cannot be read."""


class LaterLake(LakeError):
    """The lake was written by later software."""


class LakeBusy(LakeError):
    """Another process is writing to the lake."""


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the lake."""

    part: str
    """The part that holds its rows."""
    files: tuple[FileMark, ...]
    lines: int
    """Lines in its files, readable or not."""
    records: int
    """Rows in the tables of records."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of some runs: one Parquet file for each table that has any."""

    schema: str
    """The digest of all schemas with which it was written."""
    bytes: int
    """Size of its files."""
    rows: dict[str, int]
    """The number of rows by folder, for example `tables/reigns` or `records/RequestSent`."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a lake."""

    format: int
    version: int
    runs: dict[str, RunEntry]
    parts: dict[str, Part]


class _Format(msgspec.Struct, frozen=True):
    format: int


EMPTY = Manifest(format=FORMAT, version=0, runs={}, parts={})


def is_lake(folder: Path) -> bool:
    """Return whether a folder is a lake, of any format; its other files do not matter."""
    return folder.is_dir() and bool(versions(folder))


def versions(lake: Path) -> list[int]:
    """Return the versions whose manifests exist, sorted.

    Raises:
        OSError: the folder of the manifests exists and cannot be listed.
    """
    try:
        names = [path.name for path in (lake / FOLDER).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_newest(lake: Path) -> Manifest | None:
    """Return the newest version, or None if there is none.

    Raises:
        NotALake: it is damaged.
        LaterLake: its format is later than `FORMAT`.
    """
    found = versions(lake)
    return read_version(lake, found[-1]) if found else None


def read_version(lake: Path, version: int) -> Manifest:
    """Return one version; raises as `read_newest`, and FileNotFoundError if it does not exist."""
    path = _path(lake, version)
    text = path.read_bytes()
    try:
        found = msgspec.json.decode(text, type=_Format).format
        if found > FORMAT:
            raise LaterLake(
                f"{lake} has format {found}, and this Understudy knows formats up to {FORMAT}; use the Understudy that "
                "wrote it, or a later one"
            )
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotALake(
            f"{path} is not a manifest of a lake: {error}; restore it, or ingest into a new folder"
        ) from None


def publish(lake: Path, manifest: Manifest) -> None:
    """Make `manifest` the newest version. Everything that it names has to be on disk before.

    Raises:
        LakeBusy: another process has published this version.
        OSError: it could not be written; the version before still counts.
    """
    folder = lake / FOLDER
    folder.mkdir(exist_ok=True)
    temporary = folder / f".{manifest.version:010d}-{uuid.uuid4().hex[:8]}.tmp"
    with temporary.open("xb") as stream:
        stream.write(msgspec.json.encode(manifest))
        sync_file(stream.fileno())
    try:
        os.link(temporary, _path(lake, manifest.version))
    except FileExistsError:
        raise LakeBusy(
            f"another process has written version {manifest.version} of {lake} meanwhile; run the command again"
        ) from None
    sync_folder(folder)


def keep_newest(lake: Path, kept: int) -> None:
    """Delete all but the newest `kept` manifests, and the temporary files of unfinished ones."""
    for version in versions(lake)[:-kept]:
        _path(lake, version).unlink()
    for temporary in (lake / FOLDER).glob(".*.tmp"):
        temporary.unlink()


def sync_file(descriptor: int) -> None:
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Write the folder's entries to disk, so that a new file is still there after a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _path(lake: Path, version: int) -> Path:
    return lake / FOLDER / f"{version:010d}.json"
