"""The identity of the monotonic clock that this process reads: its machine and boot.

Processes whose identity has the same `boot` share a monotonic clock, so that their times can be compared. A container
has the boot of its host, and a host name of its own. Kafka's logs have neither.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")

_NANOSECONDS = 1_000_000_000


class ClockIdentity(NamedTuple):
    """The machine and boot of a monotonic clock, as in `ProcessStarted`."""

    machine: str
    """The host's name."""
    boot: str
    """The boot id, with the offset of the process's time namespace behind it if that is not 0, for example
    `b507c1e0-b84f-4064-aa30-d2c5be59cf4e+1000000000ns`; empty if the system has no boot id."""


def clock_identity(proc: Path = PROC) -> ClockIdentity:
    """Return the identity of the monotonic clock that this process reads.

    Args:
        proc: Linux' folder of processes; another system has none.
    """
    return ClockIdentity(socket.gethostname(), _boot(proc))


def _boot(proc: Path) -> str:
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
    offset = _namespace_offset_ns(proc)
    return f"{boot}{offset:+d}ns" if boot and offset else boot


def _namespace_offset_ns(proc: Path) -> int:
    """Return what the process's time namespace adds to the monotonic clock; 0 on a kernel without time namespaces."""
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "self/timens_offsets").read_text(encoding="ascii").splitlines():
            clock, seconds, nanoseconds = line.split()
            if clock == "monotonic":
                return int(seconds) * _NANOSECONDS + int(nanoseconds)
    return 0
