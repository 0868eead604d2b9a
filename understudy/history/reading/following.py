"""Reads event logs while they grow, each line once: `FolderTail` for one node, `RunTail` for a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from understudy.foundation.eventlog.files import LogFile, log_files
from understudy.history.reading.lines import MAX_LINE_BYTES

_PIECE: Final = 1 << 18

LinesOfFile: TypeAlias = tuple[LogFile, list[bytes]]


class FolderTail:
    """The event-log files of a folder, in the order of node, incarnation and number, and how far they were read.

    A file that comes before the current file is not read any more: a folder should have one node's files. Files are
    read in pieces, so that memory does not depend on their size. A last line without its end is left for later.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: LogFile | None = None
        self._offset = 0
        self._files: tuple[LogFile, ...] = ()
        self._changed_ns = -1

    def lines(self) -> Iterator[tuple[LogFile, bytes]]:
        """Yield the whole lines that have not been read yet, without newline.

        A line counts as read when the next one is asked for. If the caller stops at a line, the next call begins with
        this line.

        Raises:
            OSError: the folder or a file cannot be read.
        """
        for file in self._unread(log_files(self.folder)):
            has_more = True
            while has_more:
                text, has_more = self._text_of(file.path, _PIECE)
                for line in text[:-1].split(b"\n") if text else ():
                    yield file, line
                    self._offset += len(line) + 1

    def more(self, most_bytes: int) -> tuple[list[LinesOfFile], bool]:
        """Return the next whole lines that have not been read yet, as `lines` yields them, and whether there may be
        more.

        The folder is not listed again as long as it has not changed.

        Args:
            most_bytes: the maximum number of bytes to read; only a longer line is read to its end.

        Raises:
            OSError: the folder or a file cannot be read.
        """
        changed_ns = self.folder.stat().st_mtime_ns
        if changed_ns != self._changed_ns or not self._files:  # the clock of a folder has a step of milliseconds
            self._changed_ns, self._files = changed_ns, log_files(self.folder)
        found: list[LinesOfFile] = []
        for file in self._unread(self._files):
            text, has_more = self._text_of(file.path, most_bytes)
            if text:
                found.append((file, text[:-1].split(b"\n")))
                self._offset += len(text)
                most_bytes -= len(text)
            if has_more:
                return found, True
        return found, False

    def _unread(self, files: tuple[LogFile, ...]) -> Iterator[LogFile]:
        """Yield the file that is being read and those that follow it."""
        for file in files:
            if self._file is not None and file < self._file:
                continue
            if file != self._file:
                self._file, self._offset = file, 0
            yield file

    def _text_of(self, path: Path, most_bytes: int) -> tuple[bytes, bool]:
        """Return whole lines, and whether the file has more; a line that is too long is left."""
        if path.stat().st_size <= self._offset:
            return b"", False
        with path.open("rb") as stream:
            stream.seek(self._offset)
            text = stream.read(most_bytes)
            has_more = len(text) == most_bytes
            if has_more and b"\n" not in text:
                text += stream.readline(MAX_LINE_BYTES)
        end = text.rfind(b"\n") + 1
        # If no line ends, none is whole: lines after a line that is too long are not read.
        return text[:end], has_more and end > 0


class RunTail:
    """The event logs of a run folder, NODE/events, of which new ones may appear at any time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._nodes: dict[str, FolderTail] = {}

    @property
    def size(self) -> int:
        """The size of all event logs in bytes."""
        return sum(file.path.stat().st_size for node in self.nodes() for file in log_files(node.folder))

    def nodes(self) -> list[FolderTail]:
        """Return the logs of all nodes, sorted by the names of their folders.

        Raises:
            OSError: the run folder cannot be listed.
        """
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name not in self._nodes and (events := Path(entry.path, "events")).is_dir():
                    self._nodes[entry.name] = FolderTail(events)
        return [self._nodes[name] for name in sorted(self._nodes)]

    def lines(self) -> Iterator[tuple[LogFile, bytes]]:
        """Yield the next whole lines of all nodes, node by node, as `FolderTail.lines` does."""
        for node in self.nodes():
            yield from node.lines()
