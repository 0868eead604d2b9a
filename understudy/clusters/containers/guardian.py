"""`Guardian`: a process that takes a project down where the program that started it was killed.

The engine runs containers for as long as it likes: unlike child processes they do not end with the program that has
started them. So that program starts a guardian first, and keeps the writing end of a pipe to it open. The system closes
that end when the program ends, however it ends. Where `done` has not come before, the guardian takes the project down.

    python -m understudy.clusters.containers.guardian FOLDER PROJECT
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.docker_command import DockerFailed
from understudy.clusters.containers.take_down import take_down

MODULE: Final = "understudy.clusters.containers.guardian"
LOG: Final = "guardian.log"
_READY: Final = b"ready\n"
_DONE: Final = b"done\n"
_SETTLES_S: Final = 2.0
_END_TIMEOUT_S: Final = 10.0


class Guardian:
    """The guardian of one project. It has to be started before the project; it leads a session of its own.

    Args:
        folder: the run folder, which gets its log.

    Raises:
        ClusterError: it cannot be started.
    """

    def __init__(self, folder: Path, project: str) -> None:
        command = [sys.executable, "-P", "-m", MODULE, str(folder), project]
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != _READY:
            self.dismiss()
            raise ClusterError(f"the guardian of the containers did not start; {folder / LOG} says why")

    @property
    def pid(self) -> int:
        return self._process.pid

    def dismiss(self) -> None:
        """Let it end, because the project has been taken down. Harmless if it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(_DONE)
            self._process.stdin.flush()
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(_END_TIMEOUT_S)

    def __enter__(self) -> Guardian:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()


def main(folder: Path, project: str) -> int:
    """Wait for the end of the pipe; take the project down unless the word has come. Return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.buffer.write(_READY)
    sys.stdout.flush()
    if sys.stdin.buffer.read() == _DONE:
        return 0
    _say(f"the program that started {project} has ended without taking it down")
    where = folder if folder.is_dir() else Path("/")
    try:
        take_down(where, project)
        # A command that was creating containers may still be at work: what it makes after the first time goes, too.
        time.sleep(_SETTLES_S)
        take_down(where, project)
    except DockerFailed as failed:
        _say(str(failed))
        return 1
    _say(f"{project} is taken down")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
