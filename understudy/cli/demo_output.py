"""`DemoOutput` prints what `understudy demo` shows: headings, a line for each event, a moving line while it waits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeVar

from understudy.cli.activity import Activity

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Time that each awaited change of the cluster may take."""
_POLL_S = 0.02


class DemoFailed(Exception):
    """Something that the demo shows did not happen. The message says what, and what was found instead."""


class DemoOutput:
    """Prints the output of the demo. Colours and the moving line are used only on a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._is_terminal = self._out.isatty()
        self._started = time.monotonic()

    def heading(self, title: str) -> None:
        """Print the title of the next part."""
        self._line("")
        self._line(self._styled("1", title))

    def event(self, text: str, *, since: float | None = None) -> None:
        """Print one event with the seconds since the demo began or, if given, since the monotonic time `since`."""
        stamp = f"{time.monotonic() - self._started:6.2f} s" if since is None else f"+{time.monotonic() - since:5.2f} s"
        self._line(f"  {self._styled('2', stamp)}  {text}")

    def detail(self, text: str) -> None:
        """Print a line that belongs to the event before it."""
        self._line(f"            {text}")

    def wait(self, condition: Callable[[], T | None], what: str) -> T:
        """Evaluate `condition` repeatedly until it is true, and return its value.

        Args:
            what: the condition in words, for the moving line and the error.

        Raises:
            DemoFailed: the condition was not true within `TIMEOUT_S`.
        """
        deadline = time.monotonic() + TIMEOUT_S
        with self.activity(plain_lines=False) as activity:
            activity.step(what)
            while not (value := condition()):
                if time.monotonic() > deadline:
                    raise DemoFailed(f"not within {TIMEOUT_S:g} s: {what}")
                time.sleep(_POLL_S)
            return value

    def print(self, page: str) -> None:
        """Print lines as they are."""
        for line in page.splitlines():
            self._line(line)

    def activity(self, *, plain_lines: bool = True) -> Activity:
        """Return an `Activity` that shows the steps of something that takes long."""
        return Activity(self._out, indent=" " * 12, plain_lines=plain_lines)

    def failure(self, text: str) -> None:
        """Print that the demo has failed."""
        self._line(self._styled("31;1", text))

    def success(self, text: str) -> None:
        """Print that everything has happened."""
        self._line(self._styled("32;1", text))

    def _line(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_terminal else text
