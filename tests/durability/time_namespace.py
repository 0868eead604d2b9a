"""Runs a program in a Linux time namespace, whose monotonic clock is ahead of the machine's by a given time.

`python time_namespace.py SECONDS PROGRAM ARGUMENT…` replaces itself by the program, so that its process id is the one
that its owner signals. No root is needed if the system lets users create namespaces.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from subprocess import run
from typing import Final

_CLONE_NEWTIME: Final = 0x00000080
_CLONE_NEWUSER: Final = 0x10000000
_PR_SET_PDEATHSIG: Final = 1
_EPERM: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)


def command_in_namespace(ahead_s: int, command: Sequence[str]) -> list[str]:
    """Return the command line that runs `command` with a monotonic clock ahead by `ahead_s` seconds."""
    return [sys.executable, "-P", __file__, str(ahead_s), *command]


def why_not() -> str:
    """Return why this machine cannot run a program in a time namespace; empty if it can."""
    if sys.platform != "linux":
        return f"time namespaces need Linux; this is {sys.platform}"
    print_clock = [sys.executable, "-c", "import time; print(time.monotonic())"]
    tried = run(command_in_namespace(1_000_000, print_clock), capture_output=True, text=True, timeout=60, check=False)
    if tried.returncode != 0:
        return f"no time namespace can be created: {tried.stderr.strip().splitlines()[-1:]}"
    ahead_s = float(tried.stdout) - time.monotonic()
    return (
        "" if ahead_s > 999_000 else f"the clock of a time namespace is ahead by {ahead_s:g} s instead of 1,000,000 s"
    )


def _enter(ahead_s: int) -> None:
    """Move this process into a time namespace of its own. Raises OSError if the system does not allow it."""
    if _libc.unshare(_CLONE_NEWTIME) != 0:
        if ctypes.get_errno() != _EPERM:
            raise _error("unshare")
        user, group = os.getuid(), os.getgid()
        _call("unshare", _CLONE_NEWUSER | _CLONE_NEWTIME)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    Path("/proc/self/timens_offsets").write_text(f"monotonic {ahead_s} 0")
    children = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    _call("setns", children, _CLONE_NEWTIME)
    os.close(children)
    # The kernel forgets it when a process gets a user namespace.
    _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _call(name: str, *arguments: int) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        raise _error(name)


def _error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")


if __name__ == "__main__":
    _enter(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
