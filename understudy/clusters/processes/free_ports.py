"""Finds ports that stay free for a program that binds them later, and again after each of its restarts."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

_LOWEST: Final = 10_000
_EPHEMERAL: Final = 32_768


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback interface that no program listens on and that the kernel gives to no connection.

    They lie beneath the range from which the kernel gives ports to connections: a container that starts again, or
    returns to its network, needs the same ports again.
    """
    ports: list[int] = []
    # Tests seed the module's generator: two runs at the same time would try the same ports.
    generator = random.SystemRandom()
    while len(ports) < count:
        port = generator.randrange(_LOWEST, _first_ephemeral_port())
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports


def _first_ephemeral_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return _EPHEMERAL
    return first if first > _LOWEST + 1_000 else _EPHEMERAL
