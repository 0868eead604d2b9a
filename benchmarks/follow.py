"""Measures how soon `understudy replay --follow` shows records that were appended to event logs.

The command runs on a pseudo-terminal. Lines of a simulated run are appended at a steady rate, and the number of lines
on each page that it draws is compared with the number that had been appended. UNDERSTUDY_BENCH_FOLLOW_SECONDS (60) sets
for how long, UNDERSTUDY_BENCH_FOLLOW_RATE (2000) the records a second.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from benchmarks.rows import Row
from understudy.history.metrics.metrics import nearest_rank
from understudy.history.reading.lines import decode_header
from understudy.trials.seeds.seeds import run_seed

SECONDS = float(os.environ.get("UNDERSTUDY_BENCH_FOLLOW_SECONDS", "60"))
RATE = int(os.environ.get("UNDERSTUDY_BENCH_FOLLOW_RATE", "2000"))
SEED = 1
RECORDS_PER_SIMULATED_SECOND = 80
"""Fewer than a simulated run writes, so that it is long enough."""
WARM_UP_S = 10.0
"""Records of the first seconds are not counted: Java compiles then."""
IDLE_S = 5.0

_SHOWN = re.compile(rb"([\d,]+) lines, the last |(?:waiting for|reading the) event logs")


class _Line(NamedTuple):
    mono_ms: float
    file: Path
    text: bytes


def run() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        simulated = Path(folder) / "simulated"
        run_seed(SEED, int(RATE * SECONDS) // RECORDS_PER_SIMULATED_SECOND, events=simulated)
        lines = _lines(simulated)[: int(RATE * SECONDS)]
        delays = _delays(lines, Path(folder) / "followed")
    p50, p95, p99 = (nearest_rank(delays, percent) or 0 for percent in (50, 95, 99))
    files = len({line.file for line in lines})
    return [
        Row(f"follow, {RATE:,} records/s to {len(lines):,} in {files} files: to page, p95, s", p95 / 1e6, 1.0, 1.0),
        Row("  p99, s", p99 / 1e6, 3.0, 1.0),
        Row("  p50, s", p50 / 1e6, None, None),
    ]


def _lines(folder: Path) -> list[_Line]:
    """Return all lines of a run in the order of their clocks."""
    found = [
        _Line(decode_header(text).mono_ms, file.relative_to(folder), text)
        for file in sorted(folder.rglob("*.jsonl"))
        for text in file.read_bytes().splitlines(keepends=True)
    ]
    return sorted(found, key=lambda line: line.mono_ms)


def _delays(lines: Sequence[_Line], folder: Path) -> list[int]:
    """Append lines while the command follows them; return how long each took to a page, in microseconds, sorted."""
    folder.mkdir()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "understudy.cli.main", "replay", "--follow", "--until-idle", str(IDLE_S)]
    appended: list[float] = []
    with subprocess.Popen([*command, str(folder)], stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        pages = _pages(ours)
        next(pages)
        writer = threading.Thread(target=_append, args=(lines, folder, appended), daemon=True)
        writer.start()
        shown = list(pages)
        writer.join()
    os.close(ours)
    if process.returncode or not shown or shown[-1][1] != len(lines):
        raise RuntimeError(f"the command ended with {process.returncode} and showed {shown[-1:]} of {len(lines)} lines")
    counts = [count for _, count in shown]
    first = bisect_left(appended, appended[0] + WARM_UP_S)
    return sorted(
        round((shown[bisect_left(counts, number + 1)][0] - at) * 1e6)
        for number, at in enumerate(appended)
        if number >= first
    )


def _pages(terminal: int) -> Iterator[tuple[float, int]]:
    """Yield when each page was shown, and the number of lines on it, until the command ends."""
    text = b""
    while True:
        try:
            text += os.read(terminal, 65536)
        except OSError:  # the other end was closed
            return
        now = time.monotonic()
        while found := _SHOWN.search(text):
            yield now, int((found[1] or b"0").replace(b",", b""))
            text = text[found.end() :]


def _append(lines: Sequence[_Line], folder: Path, appended: list[float]) -> None:
    """Append lines to their files at the rate, and note when each was."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        streams: dict[Path, BinaryIO] = {}
        for number, line in enumerate(lines):
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
            if line.file not in streams:
                path = folder / line.file
                path.parent.mkdir(parents=True, exist_ok=True)
                streams[line.file] = stack.enter_context(path.open("ab", buffering=0))
            streams[line.file].write(line.text)
            appended.append(time.monotonic())
