"""`PageRun`: the records of one run, and facts about it, as the page gets them; `finished_run` reads one at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from understudy.clusters.software import software_version
from understudy.foundation.eventlog.records import Envelope, RunDescribed
from understudy.foundation.times import micros
from understudy.history.reading.findings import LogFinding
from understudy.history.reading.reader import read
from understudy.history.report.replay import without_garbage_collection
from understudy.page.recorded.chunks import FAST, Chunks
from understudy.page.recorded.completeness import Completeness, of_records
from understudy.page.recorded.records import Encoder
from understudy.page.recorded.window import Window

MOST_FINDINGS: Final = 200
"""Maximum number of findings that the page lists; it counts the rest."""
_MOST_TOGETHER: Final = 1_000
"""Maximum number of records that are encoded together. Of more, the first would have left the processor's cache."""
_BROKER_NODE: Final = re.compile(r"broker-(\d{1,10})")


class NoSuchRun(Exception):
    """There is no run to show. The message names the path or the run, and what to do."""


class PageRun:
    """The records of one run, encoded, and the facts of `run.json`. It is used in one thread.

    Args:
        name: the id of the run; empty if its first record says it.
        title: what the page is called.
        level: the level of gzip of the chunks.
        compress_later: the argument `later` of `Chunks`.
    """

    def __init__(self, name: str, title: str, *, level: int = FAST, compress_later: bool = False) -> None:
        self.name = name
        self.title = title
        self.is_live = False
        """Whether records may still be added."""
        self.is_over = True
        """Whether its cluster has ended."""
        self.is_behind = False
        """Whether there are records that can be read now and have not been read."""
        self.chunks = Chunks(level=level, later=compress_later)
        self.findings: list[LogFinding] = []
        self.completeness: Completeness | None = None
        """The verdict on its records and clocks; None before it has one."""
        self.brokers: set[int] = set()
        self.session_timeout_ms: int | None = None
        self.is_kraft = False
        """Whether it is imported from a KRaft cluster, which has a quorum and no ZooKeeper."""
        self.now_us: int | None = None
        """The machine's monotonic clock when a live run was read last."""
        self.window: tuple[int, int] | None = None
        """The part of the run that is shown, by the monotonic clock in microseconds; None for all of it."""
        self._encoder = Encoder()
        self._first_us: int | None = None
        self._least_us: int | None = None
        self._last_us = 0
        self._started_ms = 0.0

    def add(self, records: Iterable[Envelope]) -> None:
        """Append records, which come in the order of `understudy.history.reading.order`."""
        rest = iter(records)
        while together := list(islice(rest, _MOST_TOGETHER)):
            self._observe(together)
            self.chunks.add(self._encoder.encode(together))

    def _observe(self, records: Sequence[Envelope]) -> None:
        if self._first_us is None:
            self._first_us, self._started_ms = micros(records[0].mono_ms), records[0].wall_ms
            self.name = self.name or records[0].run
        least_us = micros(min(record.mono_ms for record in records))
        self._least_us = least_us if self._least_us is None else min(self._least_us, least_us)
        self._last_us = max(self._last_us, micros(max(record.mono_ms for record in records)))
        for record in records:
            if record.seq == 1 and (broker := _BROKER_NODE.fullmatch(record.node)):
                self.brokers.add(int(broker[1]))
            if type(record.data) is RunDescribed:
                self.is_kraft = self.is_kraft or record.data.is_kraft
                if self.session_timeout_ms is None:
                    self.session_timeout_ms = record.data.session_timeout_ms

    @property
    def least_us(self) -> int:
        """The smallest time of a record, in microseconds; 0 without one."""
        return self._least_us or 0

    @property
    def lasts_us(self) -> int:
        """The time from the first record to the last, in microseconds."""
        return 0 if self._first_us is None else self._last_us - self._first_us

    def facts(self, folder: Path | None = None) -> dict[str, Any]:
        """Return what `run.json` says about the run.

        Args:
            folder: the folder to which the files of findings are named relatively.
        """
        return {
            "run": self.name,
            "title": self.title,
            "is_live": self.is_live and not self.is_over,
            "is_being_read": self.is_behind,
            "chunk_records": self.chunks.size,
            "chunks": self.chunks.count,
            "records": len(self.chunks),
            "first_us": self._first_us,
            "last_us": self._last_us if self._first_us is not None else None,
            "window": self.window,
            "now_us": self.now_us,
            "started_ms": self._started_ms,
            "session_timeout_ms": self.session_timeout_ms,
            "is_kraft": self.is_kraft,
            "brokers": sorted(self.brokers),
            "findings": [_shown(finding, folder) for finding in self.findings[:MOST_FINDINGS]],
            "findings_count": len(self.findings),
            "missing": None,
            "clocks": [],
            "clocks_note": "",
            **(self.completeness.facts() if self.completeness is not None else {}),
            "software_version": software_version(),
        }


@without_garbage_collection()
def finished_run(
    paths: Sequence[Path], wanted: str | None = None, window: Window | None = None, *, level: int = FAST
) -> PageRun:
    """Read the event logs of a run that has ended: of a run folder, a folder of logs, or files.

    Args:
        wanted: the id of the run; needed if the logs hold several.
        window: the part of the run that is shown; None for all of it.
        level: the level of gzip of the chunks.

    Raises:
        NoSuchRun: there is no log, none of the run, or there are several runs and `wanted` is None.
    """
    reading = read(paths)
    where = ", ".join(map(str, paths))
    runs = sorted({record.run for record in reading.records})
    if not runs:
        reason = f": {reading.findings[0]}" if reading.findings else ""
        raise NoSuchRun(f"{where} has no event log that can be read{reason}; give a run folder or its log files")
    if wanted is None and len(runs) > 1:
        raise NoSuchRun(f"{where} has the logs of {len(runs)} runs; choose one by --run-id: {', '.join(runs[:10])}")
    if wanted is not None and wanted not in runs:
        raise NoSuchRun(f"{where} has no run {wanted!r}; it has {', '.join(runs[:10])}")
    run = PageRun(wanted or runs[0], text_of(Path(paths[0].resolve().name)), level=level)
    run.findings = list(reading.findings)
    records = tuple(record for record in reading.records if record.run == run.name)
    run.completeness = of_records(records, reading.sequences, reading.clocks[run.name])
    if window is None:
        run.add(records)
    else:
        run.add(window.records(records))
        start = micros(records[0].mono_ms)
        end = start + window.to_us if window.to_us is not None else micros(records[-1].mono_ms)
        run.window = (start + window.from_us, end)
    return run


def text_of(path: Path) -> str:
    """Return a path as text that can be encoded, also if its bytes are not UTF-8."""
    return os.fsencode(path).decode(errors="replace")


def _shown(finding: LogFinding, folder: Path | None) -> dict[str, Any]:
    file = Path(finding.file)
    if folder is not None and file.is_relative_to(folder):
        file = file.relative_to(folder)
    shown = msgspec.structs.replace(finding, file=text_of(file))
    return {**msgspec.structs.asdict(shown), "text": str(shown)}
