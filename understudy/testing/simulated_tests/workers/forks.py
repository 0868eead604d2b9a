"""`Child`: a forked process that computes one value, and sends it through a pipe."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, Final, NoReturn

_GARBAGE_COLLECTION: Final = (20_000, 20, 10)
"""Thresholds of the garbage collector. Hardly an object of a run is part of a cycle before the run has ended."""
_PR_SET_PDEATHSIG: Final = 1
_CHUNK: Final = 1 << 20

_is_child = False


class ChildDied(Exception):
    """A forked process has ended without a value. The message says how it has ended."""


class ChildFailed(Exception):
    """The function of a forked process has raised an exception, whose traceback is the message."""


def is_child() -> bool:
    """Whether this process was forked to run a seed."""
    return _is_child


class Child:
    """A process, forked from this one, that computes a value.

    Args:
        compute: is called in the new process; its value must be picklable.
    """

    def __init__(self, compute: Callable[[], Any]) -> None:
        pid, pipe = fork()
        if pid == 0:
            _compute_and_exit(compute, pipe)
        self.pid = pid
        self._pipe = pipe
        self._is_over = False

    def fileno(self) -> int:
        """The pipe, which becomes readable when the value is there or the process has ended."""
        return self._pipe

    def result(self) -> Any:
        """Wait for the value.

        Raises:
            ChildDied: the process has ended without one.
            ChildFailed: `compute` has raised an exception.
        """
        data = _read(self._pipe)
        status = self._reap()
        if not data or status != 0:
            raise ChildDied(how_it_ended(status))
        is_value, value = pickle.loads(data)
        if not is_value:
            raise ChildFailed(value)
        return value

    def kill(self) -> None:
        """End the process. Harmless if it has ended."""
        if not self._is_over:
            os.kill(self.pid, signal.SIGKILL)
            os.close(self._pipe)
            self._reap()

    def _reap(self) -> int:
        self._is_over = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def fork() -> tuple[int, int]:
    """Fork this process.

    Returns:
        The new process's id and the end of a pipe to read from; in the new process 0 and the end to write to.
    """
    global _is_child
    _flush()
    reading, writing = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, which do not run in the new process
        pid = os.fork()
    if pid != 0:
        os.close(writing)
        return pid, reading
    _is_child = True
    _end_with(parent)
    os.close(reading)
    # All that exists is ignored by the garbage collector from now on, and its counts begin with 0: it runs at the same
    # places in each run of a seed.
    gc.freeze()
    gc.set_threshold(*_GARBAGE_COLLECTION)
    gc.collect()
    return 0, writing


def read_to_end(pid: int, pipe: int) -> bytes:
    """Wait for the end of a forked process, and return what it has written to its pipe."""
    data = _read(pipe)
    os.waitpid(pid, 0)
    return data


def _read(pipe: int) -> bytes:
    pieces = []
    while piece := os.read(pipe, _CHUNK):
        pieces.append(piece)
    os.close(pipe)
    return b"".join(pieces)


def write_and_exit(pipe: int, data: bytes) -> NoReturn:
    """Write to the pipe, and end this process at once: no `finally` and no exit handler of its parent runs in it."""
    try:
        _flush()
        view = memoryview(data)
        while view:
            view = view[os.write(pipe, view) :]
    finally:
        os._exit(0)


def how_it_ended(status: int) -> str:
    """Say how a process has ended, by the exit code that `waitstatus_to_exitcode` gives."""
    if status >= 0:
        return f"the process has ended with exit code {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    hint = {
        "SIGKILL": ", as the system ends one when memory is short",
        "SIGSEGV": ": a module in C has crashed",
    }.get(name, "")
    return f"the process was ended by {name}{hint}"


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def _compute_and_exit(compute: Callable[[], Any], pipe: int) -> NoReturn:
    try:
        data = pickle.dumps((True, compute()))
    except BaseException:  # noqa: BLE001  the parent raises it; this process must not continue as its parent does
        data = pickle.dumps((False, traceback.format_exc()))
    write_and_exit(pipe, data)


def _end_with(parent: int) -> None:
    """Let this process end with its parent, if the system can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
