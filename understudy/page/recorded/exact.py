"""Converts numbers for the page's scripts: integers that JSON in a browser cannot hold exactly become text."""

from __future__ import annotations

from typing import Final

from understudy.foundation.times import micros

LARGEST_EXACT: Final = 2**53 - 1
"""The largest integer that JSON in a browser holds exactly, and its negative the smallest."""


def exact_micros(mono_ms: float) -> int:
    """Return milliseconds as whole microseconds that a browser holds exactly: at most 2⁵³ − 1, 285 years."""
    return max(-LARGEST_EXACT, min(LARGEST_EXACT, micros(mono_ms)))


def exact(number: int) -> int | str:
    """Return an integer, or its hexadecimal text such as `-0x20000000000000` if a browser would round it."""
    return number if -LARGEST_EXACT <= number <= LARGEST_EXACT else f"{number:#x}"


def session_text(session_id: int) -> str:
    """Return a session id as ZooKeeper writes it: 64 bits in hexadecimal, for example `0x100000a1b2c0000`."""
    return f"{session_id & (2**64 - 1):#x}"
