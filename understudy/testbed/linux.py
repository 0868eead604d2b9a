"""What only the operating system can do: tie a child's life to its owner's, tell one process from another, find its
port.

Everything here that is not portable works on Linux and says what happens elsewhere. Run as a script, this file is the
launcher of every child of the testbed: it ties itself to its owner and then becomes the command it was given. It
therefore imports the standard library only, and nothing slow.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LISTEN = "0A"


def launcher(command: list[str]) -> list[str]:
    """The command line that runs `command` so that it cannot outlive the calling process, not even when that is
    SIGKILLed.

    The kernel keeps the promise for the *thread* that forks; see `processes.spawn`. Elsewhere than on Linux the command
    runs as it is, and only an orderly end of the owner ends it.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot: with its pid the identity of a process. None when it is
    gone.

    0 where the system does not tell (no /proc).
    """
    if not Path("/proc/self/stat").exists():
        return 0 if _may_exist(pid) else None
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(rest[18])


def is_paused(pid: int) -> bool:
    """Whether the process stands still after a SIGSTOP; False where the system does not tell."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def listening_ports(pid: int) -> tuple[int, ...]:
    """The TCP ports the process listens on, sorted; empty where there are none yet, or no /proc."""
    try:
        inodes = {_socket_inode(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir()} - {None}
        if not inodes:
            return ()  # reading the tables of a machine with many connections takes tens of milliseconds
        tables = [Path(f"/proc/{pid}/net/{table}").read_text() for table in ("tcp", "tcp6")]
    except OSError:
        return ()
    ports = set()
    for line in (line for table in tables for line in table.splitlines()[1:]):
        columns = line.split()
        if columns[3] == _LISTEN and columns[9] in inodes:
            ports.add(int(columns[1].rpartition(":")[2], 16))
    return tuple(sorted(ports))


def tells_ports() -> bool:
    """Whether `listening_ports` can answer here."""
    return Path("/proc/self/net/tcp").exists()


def _socket_inode(descriptor: Path) -> str | None:
    try:
        found = re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink()))
    except OSError:
        return None
    return found[1] if found else None


def _may_exist(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _become(owner: int, command: list[str]) -> None:
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
        # Where the owner ended before prctl was called, the kernel would never send the signal.
        if os.getppid() != owner:
            sys.exit(f"the owner, process {owner}, is gone")
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
