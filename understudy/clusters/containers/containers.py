"""`Containers`: the containers of a cluster's own project, their states, and the processes in them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final, NamedTuple

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.containers.docker_command import DockerFailed, docker
from understudy.clusters.processes import linux
from understudy.clusters.processes.processes import ProcessDied, describe_exit

FRESH_S: Final = 0.25
"""How old a state may be that is used again; each command on a container makes them all old."""
_POLL_S: Final = 0.05
_END_TIMEOUT_S: Final = 30.0
_FORMAT: Final = "{{.Id}} {{.State.Status}} {{.State.ExitCode}} {{.State.Pid}}"
_MISSING: Final = "No such object"
_SIGNALLED: Final = 128
"""A container whose process was ended by signal n has the exit code 128 + n."""


class ContainerState(NamedTuple):
    """What the engine says of a container.

    Attributes:
        status: such as `running`, `paused` or `exited`; `removed` if there is none any more.
        exit_code: as of `ChildProcess`: negative for the signal that ended it.
        pid: that of its first process, 0 if none runs.
    """

    status: str
    exit_code: int
    pid: int

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "paused", "restarting")


_REMOVED: Final = ContainerState("removed", -9, 0)


class Containers:
    """The containers of one project, by service."""

    def __init__(self, project: ComposeProject) -> None:
        self.project = project
        self._states: dict[str, ContainerState] = {}
        self._read_s = 0.0

    def create(self) -> None:
        """Create all containers, and start none. Raises DockerFailed."""
        self.project.compose("create", "--no-build")
        self.project.remember_containers()

    def state(self, service: str) -> ContainerState:
        if time.monotonic() - self._read_s > FRESH_S:
            self._read()
        return self._states.get(service, _REMOVED)

    def change(self, change: str, service: str) -> None:
        """Change a container's state; see `ComposeProject.change`."""
        self.project.change(change, service)
        self._read_s = 0.0

    def signal(self, name: str, service: str) -> None:
        """Send a signal such as `SIGTERM` to the process in a container. Harmless if it has ended."""
        try:
            docker(self.project.folder, "kill", "--signal", name, self.project.ids[service])
        except DockerFailed as failed:
            if "is not running" not in str(failed):
                raise
        self._read_s = 0.0

    def log_tail(self, service: str, lines: int) -> str:
        """The last lines that a container has written, indented for a message."""
        try:
            text = self.project.compose("logs", "--no-color", "--no-log-prefix", "--tail", str(lines), service)
        except DockerFailed as failed:
            text = str(failed)
        return "\n".join(f"    {line}" for line in text.splitlines()) or "    (empty)"

    def save_log(self, service: str, file: Path) -> None:
        """Write everything that a container has written to a file. Harmless if there is no container."""
        with contextlib.suppress(DockerFailed, OSError):
            text = self.project.compose("logs", "--no-color", "--no-log-prefix", service)
            file.write_text(text, encoding="utf-8")

    def _read(self) -> None:
        ids = list(self.project.ids.values())
        try:
            lines = self._inspect(*ids) if ids else []
        except DockerFailed as failed:
            if _MISSING not in str(failed):
                raise
            lines = [line for each in ids for line in self._inspect_one(each)]
        found = {}
        for line in lines:
            container, status, exit_code, pid = line.split()
            code = int(exit_code)
            found[container] = ContainerState(status, _SIGNALLED - code if code > _SIGNALLED else code, int(pid))
        self._states = {service: found.get(container, _REMOVED) for service, container in self.project.ids.items()}
        self._read_s = time.monotonic()

    def _inspect(self, *ids: str) -> list[str]:
        return docker(self.project.folder, "inspect", "--format", _FORMAT, *ids).splitlines()

    def _inspect_one(self, container: str) -> list[str]:
        """The line of a container; none if it is removed."""
        try:
            return self._inspect(container)
        except DockerFailed as failed:
            if _MISSING not in str(failed):
                raise
            return []


class ContainerProcess:
    """One run of the process in a container; the container itself may be started again for another one.

    It has the methods of `ChildProcess`.
    """

    is_waiting = False

    def __init__(self, containers: Containers, service: str) -> None:
        self._containers = containers
        self.name = service
        self._exit_code: int | None = None
        self.pid = containers.state(service).pid
        self.started = linux.start_time(self.pid) or 0 if self.pid else 0

    def go_ahead(self) -> None:
        raise ClusterError(f"{self.name} does not wait: a container starts its process at once")

    @property
    def exit_code(self) -> int | None:
        if self._exit_code is None:
            state = self._containers.state(self.name)
            self._exit_code = None if state.is_running else state.exit_code
        return self._exit_code

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def is_paused(self) -> bool:
        """Whether its container is paused, or it has stopped itself at an armed point."""
        return self._is_frozen or self._has_stopped_itself

    def kill(self) -> None:
        """Kill every process of the container (SIGKILL), and wait until it has ended. Harmless if it has."""
        if self.is_running:
            self._containers.change("kill", self.name)
            self.wait(_END_TIMEOUT_S)

    def pause(self) -> None:
        """Freeze every process of the container; its connections stay open."""
        if self.is_running and not self._is_frozen:
            self._containers.change("pause", self.name)

    def resume(self) -> None:
        """Let it go on. Harmless if it is not paused."""
        if self._is_frozen:
            self._containers.change("resume", self.name)
        if self._has_stopped_itself:
            self._containers.signal("SIGCONT", self.name)

    def ask_to_end(self) -> None:
        """Send SIGTERM, and resume it so that it can handle the signal."""
        if self.is_running:
            if self._is_frozen:
                self._containers.change("resume", self.name)
            self._containers.signal("SIGTERM", self.name)
            if self._has_stopped_itself:
                self._containers.signal("SIGCONT", self.name)

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds; return whether the process has ended."""
        deadline = time.monotonic() + timeout_s
        while self.is_running and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return not self.is_running

    def check(self) -> None:
        """Raise ProcessDied where the process has ended."""
        code = self.exit_code
        if code is not None:
            raise ProcessDied(f"{self.name} ended with {describe_exit(code)}. End of its log:\n{self.log_tail()}")

    def log_tail(self, lines: int = 20) -> str:
        return self._containers.log_tail(self.name, lines)

    @property
    def _is_frozen(self) -> bool:
        return self._exit_code is None and self._containers.state(self.name).status == "paused"

    @property
    def _has_stopped_itself(self) -> bool:
        return self.is_running and any(linux.is_paused(child) for child in linux.children(self.pid))
