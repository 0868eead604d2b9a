"""`FolderTail`: reads the event-log files of one folder as they grow, each line once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from foundation.eventlog.files import LogFile, log_files
from foundation.eventlog.lines import MAX_LINE_BYTES

_PIECE: Final = 1 << 18


class FolderTail:
    """The event-log files of a folder, in the order of node, incarnation and number, and how far they were read.

    A file that comes before the one that is being read is not read any more: a folder should have one node's files.
    Files are read in pieces, so that memory does not depend on their size.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file: LogFile | None = None
        self._offset = 0

    def lines(self, files: tuple[LogFile, ...] | None = None) -> Iterator[tuple[LogFile, bytes]]:
        """Yield the whole lines that have not been read yet, without newline; a last line without its end is left.

        A line counts as read when the next one is asked for: where the caller stops, the next call begins with the line
        at which it stopped.

        Args:
            files: those of the folder, where the caller has listed them.

        Raises:
            OSError: the folder or a file cannot be read.
        """
        for file in log_files(self.folder) if files is None else files:
            if self._file is not None and file < self._file:
                continue
            if file != self._file:
                self._file, self._offset = file, 0
            for line in self._lines_of(file.path):
                yield file, line
                self._offset += len(line) + 1

    def _lines_of(self, path: Path) -> Iterator[bytes]:
        if path.stat().st_size <= self._offset:
            return
        left = b""
        with path.open("rb") as stream:
            stream.seek(self._offset)
            while piece := stream.read(_PIECE):
                *lines, left = (left + piece).split(b"\n")
                yield from lines
                if len(left) > MAX_LINE_BYTES:
                    return
