"""Compares the files of a run at its sources with those in its folder, and copies the parts that the folder lacks.

Files with one name are copies of one file, or beginnings of it: the longest is copied. The folder's own file counts as
such a copy, so that a second collection adds only the new bytes.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.files import LogFile
from understudy.history.collecting.sources import ByteRange, LocalSource, Source, SourceFile, read_whole
from understudy.history.reading.reader import find_files
from understudy.history.writing import counted

_END_BYTES: Final = 1024
"""Number of bytes at the beginning and at the end of the common part of two copies that are compared."""


class NotOneRun(Exception):
    """The files cannot become one run in the folder. The message names them and what to do."""


class FileCopy(NamedTuple):
    """A file of the run, and the part of it that the folder does not have yet."""

    file: LogFile
    """Its path is in the folder."""
    source: Source
    path: Path
    """The path at the source."""
    bytes: int
    """The size at the source; the size in the folder if this is larger."""
    kept: int
    """Number of bytes that the folder has already."""

    @property
    def new(self) -> int:
        """Number of bytes to copy."""
        return self.bytes - self.kept


class Collection(NamedTuple):
    """The files of a run, and the bytes of each that its folder lacks."""

    run: str
    folder: Path
    copies: tuple[FileCopy, ...]
    """All files of the run, sorted by node, incarnation and number."""
    left_out: dict[str, int]
    """The number of files of each other run; the run is empty for files without a readable line."""


class _Place(NamedTuple):
    """A copy of a file, at a source or in the folder."""

    file: SourceFile
    source: Source

    @property
    def path(self) -> Path:
        return self.file.file.path

    @property
    def bytes(self) -> int:
        return self.file.bytes

    def __str__(self) -> str:
        name = str(self.path)
        return name if isinstance(self.source, LocalSource) else f"{self.source.name} ({name})"


# ------------------------------------------------------------------ comparing


def plan(sources: Sequence[Source], folder: Path, run: str | None = None) -> Collection:
    """Compare the files of the sources with each other and with those in the folder.

    Args:
        run: the id of the run; None if the sources have only one.

    Raises:
        NoEventLogs, SourceFailed: as `Source.files` and `Source.read`.
        NotOneRun: there are several runs and `run` is None, or none with that id; or the folder has another run; or two
            files of one name differ.
    """
    found = [(source, file) for source in sources for file in _with_runs(source.files())]
    runs = Counter(file.run for _, file in found)
    chosen = _choose(runs, run)
    # If there are no other runs, a file without a readable line is of this one.
    taken = {chosen} if set(runs) - {chosen, ""} else {chosen, ""}
    by_name = grouped((file.file.path.name, _Place(file, source)) for source, file in found if file.run in taken)
    here = LocalSource(folder)
    own = {file.file.path.name: _Place(file, here) for file in _in_folder(folder, chosen)}
    copies = [_copy_of(places, own.get(name), folder) for name, places in by_name.items()]
    copies += [_copy_of((place,), place, folder) for name, place in own.items() if name not in by_name]
    _check_copies((*places, *([own[name]] if name in own else ())) for name, places in by_name.items())
    left_out = {each: files for each, files in sorted(runs.items()) if each not in taken}
    return Collection(chosen, folder, tuple(sorted(copies, key=lambda copy: copy.file)), left_out)


def _copy_of(places: Sequence[_Place], own: _Place | None, folder: Path) -> FileCopy:
    """Return how the longest of some copies gets into the folder, which may have a copy already.

    Raises:
        NotOneRun: its node cannot be the name of a folder.
    """
    longest = max(places, key=lambda place: place.bytes)
    file = longest.file.file
    if own is not None:
        return FileCopy(own.file.file, longest.source, file.path, max(longest.bytes, own.bytes), own.bytes)
    if file.node in (".", ".."):
        raise NotOneRun(f"{longest}: {file.node!r} cannot be the folder of a node; rename the file's node")
    path = folder / file.node / "events" / file.path.name
    return FileCopy(replace(file, path=path), longest.source, file.path, longest.bytes, 0)


def _with_runs(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return the files; one without a readable line gets the run of the file before it in its folder, or after it.

    A process that was killed at once leaves an empty file.
    """
    forwards = _with_runs_of_the_file_before(sorted(files, key=lambda each: (each.file.path.parent, each.file)))
    return _with_runs_of_the_file_before(forwards[::-1])[::-1]


def _with_runs_of_the_file_before(files: Iterable[SourceFile]) -> list[SourceFile]:
    found: list[SourceFile] = []
    for each in files:
        if not each.run and found and found[-1].file.path.parent == each.file.path.parent:
            each = each._replace(run=found[-1].run)
        found.append(each)
    return found


def _choose(runs: Counter[str], wanted: str | None) -> str:
    """Return the id of the run. Raises NotOneRun.

    Args:
        runs: the number of files of each run.
    """
    known = ", ".join(f"{run!r} ({counted(files, 'file')})" for run, files in sorted(runs.items()) if run)
    if not known:
        raise NotOneRun("no line of any file names a run; expected event logs of brokers")
    if wanted is not None:
        if not runs[wanted]:
            raise NotOneRun(f"--run {wanted}: the sources have no such run; they have {known}")
        return wanted
    first, *others = sorted(run for run in runs if run)
    if others:
        raise NotOneRun(f"the sources have {len(others) + 1} runs; choose one by --run: {known}")
    return first


def _in_folder(folder: Path, run: str) -> list[SourceFile]:
    """Return the files in the folder of the run. Raises NotOneRun."""
    if not find_files([folder]).files:
        return []
    files = _with_runs(LocalSource(folder).files())
    for file in files:
        if file.run and file.run != run:
            raise NotOneRun(f"{folder} has run {file.run!r}, such as {file.file.path}; give run {run!r} a new folder")
    return files


def _check_copies(groups: Iterable[Sequence[_Place]]) -> None:
    """Raise NotOneRun if a file is not the beginning of the longest one of the same name.

    Only the beginning and the end of the common part are compared. All parts of a source are read at once.
    """
    pairs: list[tuple[_Place, _Place]] = []
    for places in groups:
        longest, *others = sorted(places, key=lambda place: place.bytes, reverse=True)
        pairs += [(longest, other) for other in others]
    wanted = grouped(
        (place.source, each) for pair in pairs for place in pair for each in _ends(place.path, pair[1].bytes)
    )
    found = {
        (source, each): data
        for source, ranges in wanted.items()
        for each, data in zip(ranges, read_whole(source, ranges), strict=True)
    }
    for longest, other in pairs:
        for one, two in zip(_ends(longest.path, other.bytes), _ends(other.path, other.bytes), strict=True):
            if found[longest.source, one] != found[other.source, two]:
                raise NotOneRun(
                    f"{longest} and {other} differ, so they are not of one run; give each run its own "
                    "understudy.run.id, and each broker its own broker.id"
                )


def _ends(path: Path, size: int) -> tuple[ByteRange, ByteRange]:
    length = min(size, _END_BYTES)
    return ByteRange(path, 0, length), ByteRange(path, size - length, length)


# ------------------------------------------------------------------ copying


def copy_files(collection: Collection, progress: Callable[[str], object] = lambda step: None) -> None:
    """Copy what the folder does not have yet. An interrupted copy is finished by the next call.

    A file has its name only when it is whole; until then it is `.NAME.part`, which no reader of event logs reads.

    Args:
        progress: called with each step before it begins.

    Raises:
        SourceFailed: a source cannot be read. The files before are in the folder.
        OSError: the folder cannot be written.
    """
    new = [copy for copy in collection.copies if copy.new or not copy.file.path.exists()]
    for number, copy in enumerate(new, 1):
        progress(f"copying {copy.file.path.name} from {copy.source.name}, {number} of {len(new)} files")
        _copy(copy)


def _copy(copy: FileCopy) -> None:
    target = copy.file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    if not _is_beginning(part, copy):
        part.unlink(missing_ok=True)
        if copy.kept:
            shutil.copyfile(target, part)
    with part.open("ab") as stream:
        begin = stream.tell()
        for piece in copy.source.read([ByteRange(copy.path, begin, copy.bytes - begin)]):
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(target)


def _is_beginning(part: Path, copy: FileCopy) -> bool:
    """Return whether a file that an interrupted copy has left is the beginning of the source's file."""
    try:
        size = part.stat().st_size
    except FileNotFoundError:
        return False
    if not copy.kept < size <= copy.bytes:
        return False
    here = read_whole(LocalSource(part), _ends(part, size))
    return here == read_whole(copy.source, _ends(copy.path, size))
