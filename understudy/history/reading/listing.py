"""Lists event-log files by folder, without a path object for each, and opens none.

The driver of a Spark job has the names of some hundred thousand files in its memory.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from understudy.foundation.eventlog.files import LOG_NAME, log_file
from understudy.history.reading.findings import NO_FILES, LogFinding
from understudy.history.storage.paths import StoragePath, UrlPath, is_url, storage_path

_SPECIAL_FILES: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class LogListing:
    """The event-log files at or below some paths.

    Attributes:
        names: the names of the files in each folder, each once and sorted. A folder ends with `/`, so that folder and
            name together are the path; the current folder is empty.
        findings: paths without event-log files, and what cannot be read at all.
    """

    names: Mapping[str, tuple[str, ...]]
    findings: tuple[LogFinding, ...] = ()

    @classmethod
    def of(cls, files: Iterable[StoragePath]) -> LogListing:
        """Return the listing of some files, whatever their names."""
        names: dict[str, set[str]] = {}
        for file in files:
            folder, slash, name = str(file).rpartition("/")
            names.setdefault(folder + slash, set()).add(name)
        return cls({folder: tuple(sorted(own)) for folder, own in names.items()})

    @classmethod
    def merged(cls, listings: Iterable[LogListing]) -> LogListing:
        """Return the files and findings of several listings; a file in two of them is there once."""
        names: dict[str, tuple[str, ...]] = {}
        findings: list[LogFinding] = []
        shared: dict[tuple[str, ...], tuple[str, ...]] = {}  # the folders of many runs have the same names
        for listing in listings:
            findings += listing.findings
            for folder, own in listing.names.items():
                known = names.get(folder, own)
                both = own if known == own else tuple(sorted({*known, *own}))
                names[folder] = shared.setdefault(both, both)
        return cls(names, tuple(findings))

    @property
    def count(self) -> int:
        """The number of files."""
        return sum(map(len, self.names.values()))

    @property
    def is_stored(self) -> bool:
        """Whether a file is in a store."""
        return any(map(is_url, self.names))

    def files(self) -> Iterator[str]:
        """Yield the path of each file as a text, folder by folder."""
        return (folder + name for folder, own in self.names.items() for name in own)

    def paths(self) -> list[StoragePath]:
        """Return the paths of the files, sorted; files of this machine first, then URLs."""
        found = list(map(storage_path, self.files()))
        here = sorted(path for path in found if isinstance(path, Path))
        return [*here, *sorted(path for path in found if isinstance(path, UrlPath))]

    def as_given(self, files: Collection[str]) -> dict[str, str]:
        """Return the paths, as they were given, of some of the files, by their absolute paths.

        Args:
            files: absolute paths.
        """
        wanted = frozenset(files)
        found: dict[str, str] = {}
        for folder, own in self.names.items() if wanted else ():
            start = absolute(folder)
            for name in own:
                if start + name in wanted:
                    given = str(storage_path(folder + name))
                    found[start + name] = max(given, found.get(start + name, given))
        return found


def absolute(folder: str) -> str:
    """Return the absolute path of a folder of a listing, with `/` at its end. Links and `..` stay as they are."""
    return folder if folder.startswith("/") or is_url(folder) else f"{os.getcwd().rstrip('/')}/{folder}"  # noqa: PTH109  a path as text


def list_files(paths: Iterable[StoragePath]) -> LogListing:
    """List the event-log files at or below `paths`, with a finding for each path without any.

    A path that is a file is listed whatever its name. Links to folders are not followed. A device, a named pipe or a
    socket, whose reading may never end, is a finding, and so is a folder that cannot be listed. A URL may be a pattern,
    which no shell has expanded.
    """
    return LogListing.merged(_list_url(path) if isinstance(path, UrlPath) else _list(path) for path in paths)


def special_file(path: StoragePath) -> str:
    """Return the kind of a path that is neither a file nor a folder, such as `a named pipe`; else an empty string."""
    return "" if isinstance(path, UrlPath) else _SPECIAL_FILES.get(stat.S_IFMT(_mode(path)), "")


def _mode(path: Path) -> int:
    """Return the type and mode of a file; 0 if it has none."""
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _list(path: Path) -> LogListing:
    mode = _mode(path)
    if what := _SPECIAL_FILES.get(stat.S_IFMT(mode)):
        return LogListing({}, (LogFinding(str(path), 0, NO_FILES, f"{what}, not a file or a folder"),))
    if stat.S_ISREG(mode) or (not mode and path.is_file()):
        return LogListing.of([path])
    findings: list[LogFinding] = []
    names = {_with_slash(folder): own for folder, own in _walk(str(path), findings)}
    if not names and not findings:
        findings.append(LogFinding(str(path), 0, NO_FILES, "" if path.exists() else "no such file or folder"))
    return LogListing(names, tuple(findings))


def _list_url(path: UrlPath) -> LogListing:
    names: dict[str, tuple[str, ...]] = {}
    shared: dict[tuple[str, ...], tuple[str, ...]] = {}
    findings = []
    why = ""
    try:
        for place in path.matching():
            if place.is_file():
                names |= LogListing.of([place]).names
                continue
            for folder, own in place.walk():
                logs = tuple(sys.intern(name) for name in own if LOG_NAME.fullmatch(name))
                if logs:
                    names[f"{folder}/"] = shared.setdefault(logs, logs)
    except FileNotFoundError:
        why = "no such file or folder"
    except OSError as error:
        findings.append(LogFinding(str(path), 0, NO_FILES, error.strerror or "it cannot be listed"))
    if not names and not findings:
        findings.append(LogFinding(str(path), 0, NO_FILES, why))
    return LogListing(names, tuple(findings))


def _with_slash(folder: str) -> str:
    """Return a folder as the key of a listing, without `.` in it."""
    plain = str(Path(folder))
    return "" if plain == "." else plain if plain.endswith("/") else f"{plain}/"


class _Folder(NamedTuple):
    """What a folder holds."""

    names: list[str]
    """Names of event logs."""
    others: list[str]
    """Names of event logs that are perhaps no regular files; they are in `names` too."""
    folders: list[str]
    """The paths of the folders in it."""


def _walk(top: str, findings: list[LogFinding]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each folder with event logs, and their names; note what cannot be read."""
    left = [top]
    while left:
        folder = left.pop()
        try:
            found = _look_into(folder)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                findings.append(LogFinding(str(error.filename), 0, NO_FILES, error.strerror or "it cannot be listed"))
            continue
        special = set()
        for file in sorted(filter(None, (log_file(Path(folder, name)) for name in found.others))):
            if what := special_file(file.path):
                findings.append(LogFinding(str(file.path), 0, NO_FILES, f"{what}, not a file"))
                special.add(file.path.name)
        if names := tuple(sorted(set(found.names) - special)):
            yield folder, names
        left += reversed(found.folders)


def _look_into(folder: str) -> _Folder:
    """List a folder.

    Raises:
        OSError: it cannot be listed.
    """
    found = _Folder([], [], [])
    has_files = False
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            try:
                is_folder = entry.is_dir()
            except OSError:  # a link into a loop
                is_folder = False
            has_files = has_files or not is_folder
            if is_folder and not entry.is_symlink():
                found.folders.append(entry.path)
            if LOG_NAME.fullmatch(name):
                found.names.append(sys.intern(name))
                if not entry.is_file(follow_symlinks=False):
                    found.others.append(name)
    return found if has_files else _Folder([], [], found.folders)
