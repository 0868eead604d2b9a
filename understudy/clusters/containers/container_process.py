"""`ContainerProcess`: the process in a container, with the methods of `ChildProcess`."""

from __future__ import annotations

import time
from typing import Final

from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.containers.docker_command import DockerFailed
from understudy.clusters.processes import linux
from understudy.clusters.processes.processes import RunningProcess

_POLL_S: Final = 0.05
_END_TIMEOUT_S: Final = 30.0


class ContainerProcess(RunningProcess):
    """One run of the process in a container; the container itself may be started again for another one."""

    def __init__(self, project: ComposeProject, service: str) -> None:
        self._project = project
        self.name = service
        self._exit_code: int | None = None
        self.pid = project.state(service).pid
        self.started = linux.start_time(self.pid) or 0 if self.pid else 0

    @property
    def exit_code(self) -> int | None:
        if self._exit_code is None:
            state = self._project.state(self.name)
            self._exit_code = None if state.is_running else state.exit_code
        return self._exit_code

    @property
    def is_paused(self) -> bool:
        """Whether its container is paused, or it has stopped itself at an armed point."""
        return self._is_frozen or self._has_stopped_itself

    def kill(self) -> None:
        """Kill every process of the container (SIGKILL), and wait until it has ended. Harmless if it has."""
        if self.is_running:
            self._project.change("kill", self.name)
            self.wait(_END_TIMEOUT_S)

    def pause(self) -> None:
        """Freeze every process of the container; its connections stay open."""
        if self.is_running and not self._is_frozen:
            self._project.change("pause", self.name)

    def resume(self) -> None:
        """Resume the process. Harmless if it is not paused."""
        if self._is_frozen:
            self._project.change("resume", self.name)
        if self._has_stopped_itself:
            self._project.signal("SIGCONT", self.name)

    def ask_to_end(self) -> None:
        """Send SIGTERM, and resume it so that it can handle the signal."""
        if self.is_running:
            if self._is_frozen:
                self._project.change("resume", self.name)
            self._project.signal("SIGTERM", self.name)
            if self._has_stopped_itself:
                self._project.signal("SIGCONT", self.name)

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds; return whether the process has ended."""
        deadline = time.monotonic() + timeout_s
        while self.is_running and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return not self.is_running

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the container has written, indented for a message."""
        try:
            text = self._project.log(self.name, tail=lines)
        except DockerFailed as failed:
            text = str(failed)
        return "\n".join(f"    {line}" for line in text.splitlines()) or "    (empty)"

    @property
    def _is_frozen(self) -> bool:
        return self._exit_code is None and self._project.state(self.name).status == "paused"

    @property
    def _has_stopped_itself(self) -> bool:
        return self.is_running and any(linux.is_paused(child) for child in linux.children(self.pid))
