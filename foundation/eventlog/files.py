"""Writes and finds event-log files.

A file is named `<node>-<incarnation>-<file>.jsonl` with four digits each, for example `broker-1-0002-0001.jsonl`. Files
of one incarnation carry one running sequence of records; a new file starts when the next line would not fit into the
old one.

A line has been handed to the operating system when `write` returns: it survives the death of the process, but not a
loss of power.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of a file, unless a single line is longer."""

_CLAIMS = 100

_TAIL_BYTES = 64 * 1024
"""Number of bytes at the end of a file in which its last record is looked for first."""

_NODE = re.compile(r"[A-Za-z0-9._-]{1,200}")
LOG_NAME = re.compile(r"(?P<node>[A-Za-z0-9._-]{1,200})-(?P<incarnation>\d{4,9})-(?P<file>\d{4,9})\.jsonl")
"""The whole name of an event-log file."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogFile:
    """One file of one incarnation of a node; sorts by node, incarnation and number."""

    node: str
    incarnation: int
    file: int
    path: Path


def log_files(folder: Path) -> tuple[LogFile, ...]:
    """List the event-log files directly in `folder`, sorted; other files are left out.

    Raises:
        OSError: the folder cannot be listed.
    """
    return tuple(sorted(file for path in folder.iterdir() if (file := log_file(path)) is not None))


def log_file(path: Path) -> LogFile | None:
    """Return the event-log file that a path names; None if its name has another form."""
    match = LOG_NAME.fullmatch(path.name)
    if match is None:
        return None
    return LogFile(node=match["node"], incarnation=int(match["incarnation"]), file=int(match["file"]), path=path)


class LastRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The last record of an incarnation's log that can be read."""

    run: str
    incarnation: int
    seq: int


_LAST_RECORD = msgspec.json.Decoder(LastRecord)


def last_record(files: Sequence[LogFile]) -> LastRecord | None:
    """Return the last record in files of one incarnation, in their order; None if no line of them can be read.

    Only the end of the last file is read, unless it is damaged.

    Raises:
        OSError: a file cannot be read.
    """
    found = (_last_record(file.path) for file in reversed(files))
    return next((record for record in found if record is not None), None)


def _last_record(path: Path) -> LastRecord | None:
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        tail_bytes = 0
        while tail_bytes < length:
            tail_bytes = min(max(_TAIL_BYTES, 4 * tail_bytes), length)
            file.seek(length - tail_bytes)
            for line in reversed(file.read(tail_bytes).split(b"\n")):
                # The first line of a tail lacks its beginning, which does not decode either.
                with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                    return _LAST_RECORD.decode(line)
    return None


class JsonLinesFiles:
    """The files of a node's next incarnation; `write` is the sink of an `EventLog`.

    The incarnation is one more than the highest that left a file, claimed by creating its first file exclusively: two
    processes that start as the same node never share one.

    Args:
        folder: created if it is missing, with its parents.
        node: name of the node, for example `broker-1`.
        max_file_bytes: size at which the next file begins.

    Raises:
        ValueError: `node` cannot be part of a file name.
        OSError: the folder or the first file cannot be created.
    """

    def __init__(self, folder: Path, node: str, *, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        if _NODE.fullmatch(node) is None:
            raise ValueError(
                f"node {node!r} cannot name an event-log file; expected letters, digits, dots, dashes, underscores"
            )
        self.folder = folder
        self.node = node
        self._max_file_bytes = max_file_bytes
        self._file = 0
        self._bytes = 0
        self._descriptor: int | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.incarnation = self._claim_incarnation()

    @property
    def path(self) -> Path:
        """The file that is being written."""
        return self._path(self.incarnation, self._file)

    def after_seq(self, run: str) -> int:
        """Return the last sequence number in the log of the incarnation before.

        It is 0 if there is no such log, none of its lines can be read, or the last one belongs to another run.

        Args:
            run: the id of the run of this incarnation.
        """
        before = (self.node, self.incarnation - 1)
        try:
            last = last_record([file for file in log_files(self.folder) if (file.node, file.incarnation) == before])
        except OSError:  # a log that is damaged does not keep its node from starting
            return 0
        return last.seq if last is not None and last.run == run else 0

    def write(self, line: bytes) -> None:
        """Append one line, newline included; when this returns the operating system has it.

        Raises:
            OSError: it could not be written as a whole, for example because the disk is full. What was written of it
                ends its file as a torn line; the next line begins another file.
        """
        if self._bytes and self._bytes + len(line) > self._max_file_bytes:
            self._roll()
        assert self._descriptor is not None, "the event log is closed"
        self._bytes += len(line)
        try:
            written = os.write(self._descriptor, line)
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            self._bytes = self._max_file_bytes
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _claim_incarnation(self) -> int:
        highest = max((found.incarnation for found in log_files(self.folder) if found.node == self.node), default=0)
        for incarnation in range(highest + 1, highest + 1 + _CLAIMS):
            try:
                self._open(incarnation, 1)
            except FileExistsError:  # another process has started as this node since the listing
                continue
            return incarnation
        raise FileExistsError(
            f"{_CLAIMS} other processes are starting as {self.node!r} in {self.folder}; give each node its name"
        )

    def _roll(self) -> None:
        self._open(self.incarnation, self._file + 1)

    def _open(self, incarnation: int, file: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        descriptor = os.open(self._path(incarnation, file), flags, 0o644)
        self.close()
        self._descriptor = descriptor
        self._file = file
        self._bytes = 0

    def _path(self, incarnation: int, file: int) -> Path:
        return self.folder / f"{self.node}-{incarnation:04d}-{file:04d}.jsonl"
