"""Lets worker processes have the same addresses in memory, if Linux allows it.

An object without a hash of its own hashes by its address, and so does None before Python 3.12. aiokafka keeps the
brokers of a cluster in a set of tuples with None in them, so its choice among brokers would differ between two
processes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ADDR_NO_RANDOMIZE: Final = 0x0040000
_ASK: Final = 0xFFFFFFFF


def are_fixed() -> bool:
    """Whether this process has the addresses of workers."""
    before = _personality(_ASK)
    return before < 0 or bool(before & _ADDR_NO_RANDOMIZE) or not _can_be_fixed()


@contextmanager
def fixed() -> Iterator[None]:
    """Let programs that are started meanwhile have fixed addresses; nothing, if the system forbids it."""
    before = _personality(_ASK)
    if before < 0 or _personality(before | _ADDR_NO_RANDOMIZE) < 0:
        yield
        return
    try:
        yield
    finally:
        _personality(before)


def _can_be_fixed() -> bool:
    """Whether the system lets a process choose. The rules of some containers forbid it."""
    before = _personality(_ASK)
    is_allowed = before >= 0 and _personality(before | _ADDR_NO_RANDOMIZE) >= 0
    if is_allowed:
        _personality(before)
    return is_allowed


def _personality(value: int) -> int:
    """Linux's `personality(2)`; −1 on another system."""
    if sys.platform != "linux":
        return -1
    libc = ctypes.CDLL(None, use_errno=True)
    libc.personality.argtypes = [ctypes.c_ulong]
    return int(libc.personality(value))
