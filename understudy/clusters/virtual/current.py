"""`Current`: which process of a user's code runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_loop import ProcessLoop


class Current:
    """What runs now in this operating system process. There is one kernel, so the class itself has the attributes."""

    running: ProcessLoop | None = None
    """The loop whose callback runs now; None while the kernel, a broker or no loop runs."""
    blocked: ProcessLoop | None = None
    """The loop of the process whose blocking code runs now, outside of its callbacks; None if none runs."""
    hooked: ProcessLoop | None = None
    """The loop whose hooks new asynchronous generators get."""


def current_loop() -> ProcessLoop | None:
    """The loop of the process whose code runs now; None for all other code."""
    return Current.running or Current.blocked
