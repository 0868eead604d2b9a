"""`RunLock`: lets one program at a time use a run folder, from before its cluster starts until after it has ended."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO, Final

from understudy.clusters.cluster import ClusterError

LOCK_FILE: Final = "run.lock"


class RunLock:
    """The lock of a run folder. The system releases it when the program that holds it ends, however it ends.

    `cluster.json`, which `run_folder.claim` reads, names the program only once every broker serves requests.

    Args:
        program: the kind of program that takes it, for the error of a second program.
    """

    def __init__(self, folder: Path, program: str = "experiment") -> None:
        self._folder = folder
        self._program = program
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            ClusterError: another program has it, or the folder cannot be written.
        """
        path = self._folder / LOCK_FILE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise ClusterError(f"{self._folder} cannot be a run folder: {error.strerror}; give another") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise ClusterError(
                f"{self._folder} is in use by another {self._program}, process {owner}; end it or give another folder"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        """Give the lock back; the file stays. Harmless if it is not held."""
        if self._file is not None:
            self._file.close()
            self._file = None
