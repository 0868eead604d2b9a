"""Linux-specific functions: they end a child with its owner, identify a process, and list its listening ports.

Each says what it does on other systems. Run as a script, this file is the launcher of every child of the testbed: it
asks the kernel to kill it when its owner ends, and then executes its command. It therefore imports only modules of the
standard library that load fast.
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
    """The command line that runs `command` so that it ends with the calling process, even if that is killed.

    The kernel ends it with the *thread* that forks (see `processes._spawner`). On other systems than Linux the command
    ends only if its owner stops it.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def start_time(pid: int) -> int | None:
    """The start time of the process in clock ticks since boot, which with the pid identifies it.

    None if it has ended; 0 if the system has no /proc.
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
    """Whether the process is stopped by a SIGSTOP; False if the system has no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def children(pid: int) -> tuple[int, ...]:
    """The processes that a process has started and that have not ended; empty if the system has no /proc."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:
            continue  # that thread has ended meanwhile
    return tuple(found)


def resident_memory(pid: int) -> int:
    """The resident memory of a process in bytes; 0 if it has ended, or the system has no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def limit_files(pid: int, count: int) -> int:
    """Limit the open files and sockets of a process to `count`, or to its hard limit if that is lower.

    Returns:
        The limit before.

    Raises:
        OSError: the process has ended, or the system cannot limit it.
    """
    import resource  # noqa: PLC0415  the launcher has no use for it

    before, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(count, hard) if hard >= 0 else count, hard))
    return before


def listening_ports(pid: int) -> tuple[int, ...]:
    """The TCP ports on which the process listens, sorted; empty if the system has no /proc."""
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


def can_list_ports() -> bool:
    """Whether `listening_ports` works on this system."""
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


def end_with(owner: int) -> None:
    """Let the kernel kill this process when `owner`, its parent, ends; exit if `owner` has ended."""
    if sys.platform == "linux":
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
        # If the owner ended before prctl was called, the kernel would never send the signal.
        if os.getppid() != owner:
            sys.exit(f"the owner, process {owner}, has ended")


def _exec(owner: int, command: list[str]) -> None:
    """Replace this process with `command`, which the kernel kills when `owner` ends; exit if `owner` has ended."""
    end_with(owner)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    _exec(int(sys.argv[1]), sys.argv[2:])
