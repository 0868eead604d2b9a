"""Removes what belongs to a compose project by its name alone, and makes sure that nothing of it is left."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

from understudy.clusters.containers.compose_project import LABEL
from understudy.clusters.containers.docker_command import DockerFailed, docker

_KINDS: Final = {
    "container": ("container", "rm", "--force", "--volumes"),
    "network": ("network", "rm"),
    "volume": ("volume", "rm", "--force"),
}
_ATTEMPTS: Final = 10
_PAUSE_S: Final = 1.0


def take_down(folder: Path, project: str) -> None:
    """Remove the containers, the network and the volumes of a project, whatever state they are in.

    Where a command that creates containers was interrupted, the engine may go on with it for a moment: that is removed,
    too.

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
    """The ids of what the engine has of a project, by kind: `container`, `network`, `volume`. Raises as `docker`."""
    found = {}
    for kind in _KINDS:
        every = ("--all",) if kind == "container" else ()
        ids = docker(folder, kind, "ls", *every, "--quiet", "--filter", f"label={LABEL}={project}").split()
        if ids:
            found[kind] = ids
    return found
