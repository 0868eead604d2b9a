"""`NotSimulated`: the error of a call that has no counterpart in virtual time."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final, NoReturn

_OWN: Final = str(Path(__file__).parent)
_LIBRARY: Final = sysconfig.get_path("stdlib")
"""The folder of Python's own modules; packages lie in a folder in it."""


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
        path = frame.filename
        is_pythons = path.startswith("<frozen ") or (path.startswith(_LIBRARY) and "site-packages" not in path)
        if not path.startswith(_OWN) and not is_pythons:
            return f"{path}:{frame.lineno} in {frame.name}"
    return "an unknown line"
