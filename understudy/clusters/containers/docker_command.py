"""Runs the `docker` command, which finds the engine as its user has set it up (contexts, `DOCKER_HOST`)."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from understudy.clusters.cluster import ClusterError

COMMAND_TIMEOUT_S: Final = 120.0
_LINES = 3


class DockerFailed(ClusterError):
    """A command of docker failed, or did not end in time. The message has the command and its last lines."""


class NoDocker(ClusterError):
    """There is no docker command, no engine that answers it, or no compose plugin. The message says which."""


def docker(folder: Path, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """Run the docker command in a folder, and return what it printed.

    Raises:
        NoDocker: there is no such command.
        DockerFailed: it failed, or did not end in time.
    """
    if not folder.is_dir():
        raise ClusterError(f"{folder} is no folder; give that of the compose file")
    command = ["docker", *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            # Ctrl-C in the terminal reaches only this program, which then takes its containers down by commands.
            start_new_session=True,
        )
    except FileNotFoundError:
        raise NoDocker("there is no docker on the PATH; containers need the docker command") from None
    except subprocess.TimeoutExpired:
        raise DockerFailed(f"not done within {timeout_s:g} s: {' '.join(command)}") from None
    if done.returncode != 0:
        last = " ".join(done.stderr.strip().splitlines()[-_LINES:])
        raise DockerFailed(f"`{' '.join(command)}` failed: {last}")
    return done.stdout


def require_engine(folder: Path) -> None:
    """Raise NoDocker if no engine answers, or docker has no compose plugin."""
    for probe in (("version", "--format", "{{.Server.Version}}"), ("compose", "version")):
        try:
            docker(folder, *probe)
        except NoDocker:
            raise NoDocker("no Docker engine: there is no docker on the PATH; containers need docker compose") from None
        except DockerFailed as failed:
            reason = str(failed).partition(" failed: ")[2] or str(failed)
            raise NoDocker(f"no Docker engine: {reason}; containers need docker compose") from None


def require_image(folder: Path, image: str) -> None:
    """Raise ClusterError if the engine has no such image. Nothing is pulled."""
    try:
        docker(folder, "image", "inspect", "--format", "{{.Id}}", image)
    except DockerFailed:
        raise ClusterError(
            f"the Docker engine has no image {image!r}; build it with `docker compose build` in the sources of "
            "Understudy, or name another one in UNDERSTUDY_IMAGE"
        ) from None
