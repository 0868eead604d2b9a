"""Ctrl-C and SIGTERM: the first one asks, the second one insists."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether somebody has asked for the end."""

    def __init__(self) -> None:
        self.asked = False

    def wait(self, timeout_s: float) -> bool:
        """Sleep, at most `timeout_s`; whether the end has been asked for. Returns at once when it is."""
        deadline = time.monotonic() + timeout_s
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            # A signal handler that does not raise lets `sleep` go on (PEP 475): short naps keep the answer quick.
            time.sleep(min(left, 0.1))
        return self.asked


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Inside, the first SIGINT or SIGTERM is noted in the `Interruption`, and each further one raises
    KeyboardInterrupt.

    SIGINT is heard also where the shell has started the program in the background, ignoring it.
    """
    interruption = Interruption()

    def heard(number: int, frame: FrameType | None) -> None:
        if interruption.asked:
            raise KeyboardInterrupt
        interruption.asked = True

    before = {number: signal.signal(number, heard) for number in _SIGNALS}
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
