"""Starts, signals and stops child processes.

A child ends with its owner: on Linux the kernel kills it, even if the owner is killed by SIGKILL. Each child leads its
own session, so that a Ctrl-C in the terminal reaches only the owner, which then stops its children in order.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from understudy.clusters.processes import linux


class ProcessDied(Exception):
    """A child has ended unexpectedly. The message names it, its exit code and the end of its log."""


class RunningProcess(Protocol):
    """One run of a broker or of ZooKeeper: a child process, or the process in a container. See `ChildProcess`."""

    name: str
    log: Path | None = None
    """The file of its log, if it has one."""
    pid: int
    started: int
    """The start time in clock ticks, which with `pid` identifies the process, also to other programs."""

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while the process runs; negative for the signal that ended it."""

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    @property
    def is_paused(self) -> bool: ...

    def kill(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def ask_to_end(self) -> None: ...

    def wait(self, timeout_s: float) -> bool: ...

    def check(self) -> None:
        """Raise ProcessDied if the process has ended."""
        code = self.exit_code
        if code is not None:
            log = self.log or "its log"
            raise ProcessDied(f"{self.name} ended with {describe_exit(code)}. End of {log}:\n{self.log_tail()}")

    def log_tail(self, lines: int = ...) -> str: ...


class LoggedProcess(RunningProcess, Protocol):
    """The signals and log of a process that is started here, whichever process is its parent."""

    log: Path

    @property
    def is_paused(self) -> bool:
        """Whether it is stopped by a SIGSTOP."""
        return self.is_running and linux.is_paused(self.pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Harmless if the process has ended."""

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self.send(signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Send SIGTERM, and SIGCONT so that a paused process can handle it."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log, indented for a message."""
        text = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in text[-lines:]) or "    (empty)"


class ChildProcess(LoggedProcess):
    """One run of one command; its output is appended to `log`.

    Signals reach only this process: the system cannot reuse its pid before this object has read its exit code.

    Args:
        waits: whether the command reads a line from its standard input before it starts its work; `go_ahead` writes
            that line.
        source: the file descriptor of its standard input; None for an empty input, or the pipe that `waits` needs.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        directory: Path,
        environment: Mapping[str, str] | None = None,
        waits: bool = False,
        source: int | None = None,
    ) -> None:
        self.name = name
        self.log = log
        if source is None:
            source = subprocess.PIPE if waits else subprocess.DEVNULL
        with log.open("ab") as output:
            self._process = _spawn(linux.launcher(list(command)), source, output.fileno(), directory, environment)
        self.pid = self._process.pid
        self.started = linux.start_time(self.pid) or 0

    @property
    def is_waiting(self) -> bool:
        """Whether it was started to wait, and `go_ahead` has not been called."""
        return self._process.stdin is not None and not self._process.stdin.closed

    def go_ahead(self) -> None:
        """Let a process that `waits` start its work. Harmless if it has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        self._close_input()

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while the process runs; negative for the signal that ended it."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Harmless if the process has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process (SIGKILL), and wait until it has ended."""
        self.send(signal.SIGKILL)
        self._process.wait()
        self._close_input()

    def pause(self) -> None:
        """Pause the process (SIGSTOP); when this returns all its threads are stopped. Its sockets stay open."""
        self.send(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def stop(self, timeout_s: float) -> bool:
        """Send SIGTERM and wait; send SIGKILL after `timeout_s`. Return whether SIGTERM ended it."""
        self.ask_to_end()
        if self.wait(timeout_s):
            return True
        self.kill()
        return False

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds; return whether the process has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return not self.is_running


def describe_exit(code: int) -> str:
    """Describe an exit code: `exit code 1`, or the signal, as `SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _spawn(
    command: list[str], source: int, output: int, directory: Path, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    return _spawner(os.getpid())(
        lambda: subprocess.Popen(
            command,
            stdin=source,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    )


_Job = Callable[[], "subprocess.Popen[bytes]"]


@functools.cache
def _spawner(_pid: int) -> Callable[[_Job], subprocess.Popen[bytes]]:
    """Start a thread that runs jobs until this process ends, and return the function that submits one.

    PR_SET_PDEATHSIG fires when the thread that forked ends, not only when its process does: a child started from a
    short-lived thread would be killed with it. A forked process does not have its parent's thread, hence one per pid.
    """
    jobs: queue.SimpleQueue[tuple[_Job, Future[subprocess.Popen[bytes]]]] = queue.SimpleQueue()

    def run() -> None:
        while True:
            job, result = jobs.get()
            try:
                result.set_result(job())
            except OSError as error:
                result.set_exception(error)

    threading.Thread(target=run, name="understudy-spawner", daemon=True).start()

    def submit(job: _Job) -> subprocess.Popen[bytes]:
        result: Future[subprocess.Popen[bytes]] = Future()
        jobs.put((job, result))
        return result.result()

    return submit
