"""`Current`: which process of a user's code runs now."""

from __future__ import annotations

import _thread
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Final, cast

from understudy.clusters.virtual.replacement import copy_of

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
    thread: int = 0
    """The operating system's thread that runs the simulation. Another one, such as a timer of pytest, has real time."""


_real_ident: Final[Any] = copy_of(cast(BuiltinFunctionType, _thread.get_ident))
"""What `get_ident` was before it was replaced."""


def claim_thread() -> None:
    """Let the calling thread be the one that runs the simulation."""
    Current.thread = _real_ident()


def current_loop() -> ProcessLoop | None:
    """The loop of the process whose code runs now; None for all other code."""
    loop = Current.running or Current.blocked
    return loop if loop is None or _real_ident() == Current.thread else None
