"""`FolderTail`: reads the event-log files of one folder as they grow, each line once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from understudy.foundation.eventlog.files import LogFile, log_files
from understudy.history.reading.lines import MAX_LINE_BYTES

_PIECE: Final = 1 << 18

LinesOfFile: TypeAlias = tuple[LogFile, list[bytes]]


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

    def more(self, most_bytes: int, files: tuple[LogFile, ...] | None = None) -> tuple[list[LinesOfFile], bool]:
        """Return the next whole lines that have not been read yet, as `lines` yields them, and whether there may be
        more.

        Args:
            most_bytes: ends the reading, but for the rest of a line that has more.
            files: those of the folder, where the caller has listed them.

        Raises:
            OSError: the folder or a file cannot be read.
        """
        found: list[LinesOfFile] = []
        for file in log_files(self.folder) if files is None else files:
            if self._file is not None and file < self._file:
                continue
            if most_bytes <= 0:
                return found, True
            if file != self._file:
                self._file, self._offset = file, 0
            text, is_whole = self._text_of(file.path, most_bytes)
            if text:
                found.append((file, text[:-1].split(b"\n")))
                self._offset += len(text)
                most_bytes -= len(text)
            if not is_whole:
                return found, True
        return found, False

    def _text_of(self, path: Path, most_bytes: int) -> tuple[bytes, bool]:
        """Return whole lines, and whether they are all that the file has; a line that is too long is left."""
        if path.stat().st_size <= self._offset:
            return b"", True
        with path.open("rb") as stream:
            stream.seek(self._offset)
            text = stream.read(most_bytes)
            is_whole = len(text) < most_bytes
            if not is_whole and b"\n" not in text:
                text += stream.readline(MAX_LINE_BYTES)
        end = text.rfind(b"\n") + 1
        # Where no line ends, none is whole: what follows a line that is too long is not read.
        return text[:end], is_whole or end == 0

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
