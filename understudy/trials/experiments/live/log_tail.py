"""`LogTail` reads the event logs of a run folder while they grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.lines import decode_record


class LogTail:
    """Reads each line of the event logs below a folder once, soon after it was written.

    Args:
        folder: the run folder; the event logs are `*/events/*.jsonl` in it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[Path, int] = {}

    def skip(self) -> None:
        """Leave out what has been written so far."""
        for _ in self.new_records():
            pass

    def new_records(self) -> Iterator[Envelope]:
        """Yield the records of the whole lines that were written since the last call, file by file."""
        for path in sorted(self._folder.glob("*/events/*.jsonl")):
            start = self._read_bytes.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            whole, newline, _ = data.rpartition(b"\n")
            self._read_bytes[path] = start + len(whole) + len(newline)
            for line in whole.split(b"\n") if whole else ():
                try:
                    yield decode_record(line)
                except msgspec.MsgspecError:
                    continue  # the judgement reads the files again, and reports damaged lines
