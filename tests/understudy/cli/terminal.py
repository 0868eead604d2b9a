"""`Terminal`: `understudy up` as a process, with what it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from understudy.clusters.processes.run_folder import ClusterEntry, read_cluster_file

UNDERSTUDY = [sys.executable, "-P", "-m", "understudy.cli.main"]


def eventually(predicate: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


def line_starting_with(start: str, stream: IO[str]) -> str:
    for line in stream:
        if line.startswith(start):
            return line
    raise AssertionError(f"the output ended without a line starting with {start!r}")


class Terminal:
    """A process of `understudy up` with the output that it prints on a terminal."""

    def __init__(self, folder: Path, *flags: str, cwd: Path | None = None) -> None:
        self.folder = folder
        command = [*UNDERSTUDY, "up", "--dir", str(folder), *flags]
        self.process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    @property
    def out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def wait_until_up(self) -> ClusterEntry:
        """Wait until the cluster has started, and return its `cluster.json`."""
        try:
            line_starting_with("Ctrl-C stops everything.", self.out)
        except AssertionError:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read()) from None
        return read_cluster_file(self.folder)

    def ctrl_c(self) -> None:
        """Send SIGINT to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
