"""Runs a command and measures the processor time and memory of all its processes, also of those that others wait for.

Spark's Python workers are children of a Java process, and no `wait` of ours ever counts them. So the tree of processes
is looked at in /proc twice a second; what a process does after the last look at it is not counted.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_LOOKS_EVERY_S = 0.5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Measured(NamedTuple):
    """What a command took."""

    seconds: float
    processor_seconds: float
    own_megabytes: float
    """The largest resident memory of the command's own process."""
    java_megabytes: float
    """The largest resident memory of a Java process."""
    worker_megabytes: float
    """The largest resident memory of a Python process below the command's own."""
    output: str


class _Process(NamedTuple):
    name: str
    ticks: int
    peak_kilobytes: int

    @property
    def is_python(self) -> bool:
        return self.name.startswith("python")


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Measured:
    """Run a command to its end; raise `CalledProcessError` if it fails."""
    seen: dict[int, _Process] = {}
    began = time.monotonic()
    with subprocess.Popen(
        command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        while process.poll() is None:
            _look(process.pid, seen)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOKS_EVERY_S)
        assert process.stdout is not None
        output = process.stdout.read()
    took = time.monotonic() - began
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(command), output)
    others = [found for pid, found in seen.items() if pid != process.pid]
    return Measured(
        seconds=took,
        processor_seconds=sum(found.ticks for found in seen.values()) / _TICKS_PER_S,
        own_megabytes=seen[process.pid].peak_kilobytes / 1000,
        java_megabytes=max((found.peak_kilobytes for found in others if not found.is_python), default=0) / 1000,
        worker_megabytes=max((found.peak_kilobytes for found in others if found.is_python), default=0) / 1000,
        output=output,
    )


def _look(root: int, seen: dict[int, _Process]) -> None:
    """Add the processes below `root` that run now, and what each has taken so far."""
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
            status = Path(f"/proc/{pid}/status").read_text()
            threads = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            continue
        for thread in threads:
            # Java's threads come and go.
            with contextlib.suppress(OSError):
                waiting += map(int, (thread / "children").read_text().split())
        fields = stat.rpartition(")")[2].split()
        # A process that is ending has no memory any more.
        peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
        if pid in seen:
            peak = max(peak, seen[pid].peak_kilobytes)
        name = stat[stat.index("(") + 1 : stat.rindex(")")]
        seen[pid] = _Process(name, int(fields[11]) + int(fields[12]), peak)
