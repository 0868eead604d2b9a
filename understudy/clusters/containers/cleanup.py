"""Removes a compose project: `take_down` now, `CleanupProcess` if the program that started it was killed.

Unlike child processes, containers do not end with the program that has started them. So that program starts a cleanup
process first, and keeps the writing end of a pipe to it open. The system closes that end when the program ends, however
it ends. If `done` was not written before, the project is taken down.

    python -m understudy.clusters.containers.cleanup FOLDER PROJECT
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import LABEL
from understudy.clusters.containers.docker_command import DockerFailed, docker

MODULE: Final = "understudy.clusters.containers.cleanup"
LOG: Final = "cleanup.log"
_READY: Final = b"ready\n"
_DONE: Final = b"done\n"
_SETTLES_S: Final = 2.0
_END_TIMEOUT_S: Final = 10.0
_KINDS: Final = {
    "container": ("container", "rm", "--force", "--volumes"),
    "network": ("network", "rm"),
    "volume": ("volume", "rm", "--force"),
}
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 1.0


class CleanupProcess:
    """A process that takes one project down when this program has ended without dismissing it.

    It has to be started before the project, and leads its own session.

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
            raise ClusterError(f"the cleanup process of the containers did not start; {folder / LOG} says why")

    @property
    def pid(self) -> int:
        return self._process.pid

    def dismiss(self) -> None:
        """Let it end, because the project has been taken down. Harmless if it has ended."""
        self._process.communicate(_DONE, _END_TIMEOUT_S)


def take_down(folder: Path, project: str) -> None:
    """Remove the containers, the network and the volumes of a project, whatever state they are in.

    If a command that creates containers was interrupted, the engine may continue it for a moment; these containers are
    also removed.

    Raises:
        DockerFailed: something is left after several attempts; the message names it.
    """
    down = ("compose", "--project-name", project, "down", "--volumes", "--remove-orphans", "--timeout", "0")
    with contextlib.suppress(DockerFailed):
        docker(folder, *down)
    for attempts_left in reversed(range(_ATTEMPTS)):
        left = leftovers(folder, project)
        if not left:
            return
        for kind, ids in left.items():
            with contextlib.suppress(DockerFailed):
                docker(folder, *_KINDS[kind], *ids)
        if attempts_left:
            time.sleep(_PAUSE_S)
    names = "; ".join(f"{kind} {', '.join(ids)}" for kind, ids in leftovers(folder, project).items())
    if names:
        raise DockerFailed(f"of project {project} these cannot be removed: {names}; use `docker rm --force`")


def leftovers(folder: Path, project: str) -> dict[str, list[str]]:
    """The ids of a project's resources in the engine, by kind: `container`, `network`, `volume`. Raises as `docker`."""
    found = {}
    for kind in _KINDS:
        every = ("--all",) if kind == "container" else ()
        ids = docker(folder, kind, "ls", *every, "--quiet", "--filter", f"label={LABEL}={project}").split()
        if ids:
            found[kind] = ids
    return found


def main(folder: Path, project: str) -> int:
    """Wait for the end of the pipe; take the project down unless `done` was read. Return the exit code."""
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
        # A command that was creating containers may still be at work: the second time removes its last containers.
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
