"""Ends code of a user's process that runs for ever without giving the loop back."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from understudy.clusters.virtual.current import current_loop

LIMIT_S: Final = 10
"""Processor time that one callback may take."""


class NeverAwaits(BaseException):
    """One callback of a process has taken `LIMIT_S` seconds of processor time.

    It is no `Exception`, so that `except Exception:` in the loop in question does not take it.
    """


@contextmanager
def watchdog(executed: Callable[[], int]) -> Iterator[None]:
    """Raise `NeverAwaits` in the line that runs, while the number of callbacks that were executed stays the same.

    Only the main thread of a process can have it.
    """
    last = quiet_s = 0

    def tick(*_: object) -> None:
        __tracebackhide__ = True
        nonlocal last, quiet_s
        now = executed()
        quiet_s = quiet_s + 1 if now == last else 0
        last = now
        loop = current_loop()
        # The exception is lost if it is raised in a function that C code calls; then the next second raises it again.
        if quiet_s >= LIMIT_S and loop is not None:
            raise NeverAwaits(
                f"{loop.process.name} has used {quiet_s} s of processor time without awaiting anything: "
                "a coroutine that computes for so long stops all others of its process; let it await asyncio.sleep(0)"
            )

    before = signal.signal(signal.SIGVTALRM, tick)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
