"""`BrokerForks`: a process that does a broker's imports once, and of which every broker process is a fork.

The imports take a second of processor time for each broker, almost all of the time that its start takes. A fork has
already done them. Linux only: a pidfd stands for the process of a fork, whose parent is not this process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes import broker_template, linux
from understudy.clusters.processes.broker_template import ForkRequest
from understudy.clusters.processes.processes import ChildProcess, LoggedProcess, ProcessDied

_FORK_TIMEOUT_S: Final = 60.0
"""Time that the template may take for its imports and a fork."""
_END_TIMEOUT_S: Final = 10.0
_PAUSE_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.001


def can_fork_brokers() -> bool:
    """Whether this system supports forks of brokers; an old kernel and some sandboxes refuse pidfds."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


_of_this_process: dict[int, BrokerForks] = {}
"""The template that `forks_of_this_process` started, by the pid of the process that started it."""


def forks_of_this_process() -> BrokerForks | None:
    """Return the template that all clusters of this process share; None if this system cannot fork brokers.

    The first call starts it, and returns before it has done its imports; so does the first call after it has ended. It
    ends with this process.
    """
    forks = _of_this_process.get(os.getpid())
    if forks is not None and forks.is_running:
        return forks
    if forks is not None:
        forks.close()
    if not can_fork_brokers():
        return None
    forks = _of_this_process[os.getpid()] = BrokerForks()
    atexit.register(forks.close)
    return forks


class BrokerForks:
    """The template process; `close` kills it, and with it the forks that are left."""

    def __init__(self) -> None:
        with contextlib.ExitStack() as ends:
            directory = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="understudy-forks-")))
            self._requests, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ends.enter_context(self._requests)
            with inherited:
                self._template = ChildProcess(
                    "the template of the brokers",
                    [sys.executable, "-P", "-m", broker_template.MODULE],
                    log=directory / "template.log",
                    directory=directory,
                    source=inherited.fileno(),
                )
            ends.callback(self._template.kill)
            self._ends = ends.pop_all()

    @property
    def is_running(self) -> bool:
        """Whether the template runs; once it has ended, it forks no more brokers."""
        return self._template.is_running

    def fork(self, name: str, config: str, *, log: Path, directory: Path, environment: Mapping[str, str]) -> Fork:
        """Start a broker as a fork; wait until the template has done its imports.

        Args:
            config: the name of its `server.properties` in `directory`.

        Raises:
            ClusterError: the template has ended (the message ends with its log), did not fork in time, or the request
                with its environment is too large.
        """
        status, inherited = os.pipe()
        request = ForkRequest(directory=str(directory), config=config, environment=dict(environment))
        try:
            try:
                with log.open("ab") as output:
                    self._send(name, request, [output.fileno(), inherited])
            finally:
                os.close(inherited)
            pid = self._read_pid(name, status)
        except BaseException:
            os.close(status)  # the template kills a fork that it makes later
            raise
        return Fork(name, log, pid, status)

    def _send(self, name: str, request: ForkRequest, descriptors: list[int]) -> None:
        # Not msgspec's JSON, which refuses the surrogates of environment variables that are not UTF-8.
        sent = json.dumps(msgspec.to_builtins(request)).encode()
        try:
            socket.send_fds(self._requests, [sent], descriptors)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the template has ended, and the pipe with it
        except OSError as error:
            raise ClusterError(f"{name} was not forked: sending a request of {len(sent)} bytes: {error}") from error

    def _read_pid(self, name: str, status: int) -> int:
        if _is_readable(status, _FORK_TIMEOUT_S):
            if word := os.read(status, broker_template.WORD_BYTES):
                return int.from_bytes(word, "big", signed=True)
            self._template.wait(_END_TIMEOUT_S)  # a process that ends closes its pipes before it has an exit code
        try:
            self._template.check()
        except ProcessDied as died:
            raise ClusterError(f"{name} was not forked: {died}") from None
        log = self._template.log_tail()
        raise ClusterError(f"{name} was not forked within {_FORK_TIMEOUT_S:g} s. End of the log:\n{log}")

    def close(self) -> None:
        """Kill the template. The kernel kills the forks that are left."""
        self._ends.close()


class Fork(LoggedProcess):
    """One run of a broker that is a fork.

    Args:
        status: the pipe to which the template writes the exit code. Until then no other process gets the pid.
    """

    def __init__(self, name: str, log: Path, pid: int, status: int) -> None:
        self.name = name
        self.log = log
        self.pid = pid
        self._status = status
        self._exit_code: int | None = None
        self._pidfd: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it has ended
            self._pidfd = os.pidfd_open(pid)
        self.started = linux.start_time(pid) or 0
        if self.exit_code is not None:
            self.started = 0  # another process may already have the pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while the process runs; negative for the signal that ended it."""
        self._read_exit_code(0.0)
        return self._exit_code

    def _read_exit_code(self, timeout_s: float) -> None:
        if self._exit_code is None and _is_readable(self._status, timeout_s):
            word = os.read(self._status, broker_template.WORD_BYTES)
            # If the template ends, the kernel kills its forks, shortly after it has closed the pipe.
            self._exit_code = int.from_bytes(word, "big", signed=True) if word else -signal.SIGKILL
            os.close(self._status)
            if self._pidfd is not None:
                if not word:
                    _is_readable(self._pidfd, _END_TIMEOUT_S)
                os.close(self._pidfd)
                self._pidfd = None

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Harmless if the process has ended."""
        if self.is_running and self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Kill the process (SIGKILL), and wait until it has ended."""
        self.send(signal.SIGKILL)
        self.wait(_END_TIMEOUT_S)

    def pause(self) -> None:
        """Pause the process (SIGSTOP); when this returns all its threads are stopped. Its sockets stay open.

        Harmless if the process has ended.
        """
        self.send(signal.SIGSTOP)
        deadline = time.monotonic() + _PAUSE_TIMEOUT_S
        while self.is_running and not self._are_threads_stopped() and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _are_threads_stopped(self) -> bool:
        try:
            threads = [int(thread.name) for thread in Path(f"/proc/{self.pid}/task").iterdir()]
        except (FileNotFoundError, ProcessLookupError):
            return False  # it has ended
        return all(map(linux.is_paused, threads))

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` seconds; return whether the process has ended."""
        self._read_exit_code(timeout_s)
        return self._exit_code is not None


def _is_readable(descriptor: int, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
