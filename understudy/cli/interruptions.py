"""Handles Ctrl-C and SIGTERM: the first signal asks the command to stop in order, the second one interrupts it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the command has received SIGINT or SIGTERM."""

    def __init__(self) -> None:
        self.received = False

    def wait(self, timeout_s: float) -> bool:
        """Sleep until a signal comes, at most `timeout_s`, and return whether one has been received."""
        deadline = time.monotonic() + timeout_s
        while not self.received and (left := deadline - time.monotonic()) > 0:
            # A signal does not end `sleep` if its handler raises nothing (PEP 475), so each sleep is short.
            time.sleep(min(left, 0.1))
        return self.received


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Record the first SIGINT or SIGTERM in the `Interruption` while the block runs; raise KeyboardInterrupt at others.

    This also handles SIGINT if the shell has started the program in the background with SIGINT ignored.
    """
    interruption = Interruption()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if interruption.received:
            raise KeyboardInterrupt
        interruption.received = True

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt also at SIGTERM while the block runs, so that it undoes what it has done.

    This also handles SIGINT if the shell has started the program in the background with SIGINT ignored.
    """

    before = {number: signal.signal(number, signal.default_int_handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
