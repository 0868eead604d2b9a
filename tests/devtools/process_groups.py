"""Checks that processes have ended with the program that started them."""

from __future__ import annotations

import os
import time

from devtools.java_processes import START_TIMEOUT_S


def assert_ends(group: int) -> None:
    """Wait until a process group is gone: its killed processes exist until their parents have asked for their ends."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process_group_exists(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process_group_exists(group)


def process_group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
