"""`NotSimulated`: the error of a call that has no counterpart in virtual time."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final, NoReturn

_OWN: Final = str(Path(__file__).parent)


class NotSimulated(RuntimeError):
    """A call cannot be simulated. The message names the call, its line, and what to do instead."""


def refusal(call: str, hint: str) -> NoReturn:
    """Raise `NotSimulated` for a call of the user's code.

    Args:
        call: the call in words, for example `time.sleep()`.
        hint: what to do instead.
    """
    raise NotSimulated(f"{call} cannot be simulated, called at {caller()}: {hint}")


def caller() -> str:
    """The line of the user's code that has led to the call in progress, as `file:line in function`."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_OWN) and "/asyncio/" not in frame.filename:
            return f"{frame.filename}:{frame.lineno} in {frame.name}"
    return "an unknown line"
