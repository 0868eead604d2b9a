"""`python -m understudy.clusters.processes.broker_template`: does a broker's imports, and forks a broker for each
request.

Its standard input is a socket. A request comes with two file descriptors: the broker's log, and a pipe to which the
pid is written at once and the exit code at the end. The template has one thread, so that a fork is complete. The
kernel kills the forks when the template ends.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from understudy.clusters.processes import linux

MODULE: Final = "understudy.clusters.processes.broker_template"
WORD_BYTES: Final = 4
"""The size of a pid or an exit code in the pipe: an int32 in network byte order."""

_REQUEST_BYTES: Final = 1024 * 1024
_LOG, _STATUS = 0, 1


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a fork: `config` is the name of its `server.properties` in `directory`."""

    directory: str
    config: str
    environment: Mapping[str, str]


class _Template:
    """The forks that run, and the socket from which requests come."""

    def __init__(self, requests: socket.socket) -> None:
        self._pid = os.getpid()
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._status_by_pid: dict[int, int] = {}

    def serve(self) -> ForkRequest | None:
        """Fork for each request; return the request in each fork, and None in the template when its owner has ended."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._reap(key.data, key.fd)
                    continue
                data, descriptors, _, _ = socket.recv_fds(self._requests, _REQUEST_BYTES, 2)
                if not data:
                    return None
                request = msgspec.convert(json.loads(data), ForkRequest)
                if self._fork(descriptors[_STATUS]) == 0:
                    self._become(request, descriptors)
                    return request
                os.close(descriptors[_LOG])

    def _fork(self, status: int) -> int:
        pid = os.fork()
        if pid != 0:
            self._status_by_pid[pid] = status
            self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)
            if not _write(status, pid):
                os.kill(pid, signal.SIGKILL)  # its owner has given up, and would never end it
        return pid

    def _become(self, request: ForkRequest, descriptors: list[int]) -> None:
        """Make this fork independent: close all that the template and other forks have open."""
        linux.end_with(self._pid)
        os.setsid()
        os.chdir(request.directory)
        os.environ.clear()
        os.environ.update(request.environment)
        others = [key.fd for key in self._selector.get_map().values() if key.data is not None]
        self._selector.close()
        for descriptor in (*others, *self._status_by_pid.values(), descriptors[_STATUS]):
            os.close(descriptor)
        with Path(os.devnull).open("rb") as empty:
            os.dup2(empty.fileno(), self._requests.fileno())
        self._requests.detach()
        for output in (1, 2):
            os.dup2(descriptors[_LOG], output)
        os.close(descriptors[_LOG])

    def _reap(self, pid: int, pidfd: int) -> None:
        """Write the exit code of a fork that has ended, and only then let another process get its pid."""
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        status = self._status_by_pid.pop(pid)
        _write(status, ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)
        os.close(status)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        os.waitpid(pid, 0)


def _write(status: int, word: int) -> bool:
    """Write a word to the pipe; return False if the owner has closed it."""
    try:
        os.write(status, word.to_bytes(WORD_BYTES, "big", signed=True))
    except BrokenPipeError:
        return False
    return True


def main() -> int:
    """Import, fork; return the broker's exit code in a fork."""
    from understudy.brokers import __main__ as broker  # noqa: PLC0415  the owner imports this module too

    with socket.socket(fileno=0) as requests:
        request = _Template(requests).serve()
    return 0 if request is None else broker.main([request.config])


if __name__ == "__main__":
    sys.exit(main())
