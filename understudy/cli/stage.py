"""How a story is told in a terminal: numbered scenes, one line per thing that happened, and a line that moves while we
wait."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeVar

from understudy.cli.activity import SPINNER, Activity

T = TypeVar("T")

_POLL_S = 0.02


class StoryBroken(Exception):
    """The story did not happen. The message says which part, and what was seen instead."""


class Stage:
    """Prints a story as it happens; colours and the moving line only on a terminal."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._tty = self._out.isatty()
        self._started = time.monotonic()

    def scene(self, title: str) -> None:
        self._line("")
        self._line(self._styled("1", title))

    def tell(self, text: str, *, since: float | None = None) -> None:
        """One thing that happened; with `since`, how many seconds after that moment."""
        stamp = f"{time.monotonic() - self._started:6.2f} s" if since is None else f"+{time.monotonic() - since:5.2f} s"
        self._line(f"  {self._styled('2', stamp)}  {text}")

    def show(self, text: str) -> None:
        """Something that belongs to the line before."""
        self._line(f"            {text}")

    def wait(self, condition: Callable[[], T | None], what: str, *, timeout_s: float) -> T:
        """Ask until `condition` answers something true, and return that; says meanwhile what is awaited.

        Raises:
            StoryBroken: not within `timeout_s` seconds.
        """
        begun = time.monotonic()
        turn = 0
        while True:
            answer = condition()
            if answer:
                self._wipe()
                return answer
            waited = time.monotonic() - begun
            if waited > timeout_s:
                self._wipe()
                raise StoryBroken(f"not within {timeout_s:g} s: {what}")
            self._moving(f"            {SPINNER[turn % len(SPINNER)]} {what} … {waited:.1f} s")
            turn += 1
            time.sleep(_POLL_S)

    def print(self, page: str) -> None:
        """Lines as they are."""
        for line in page.splitlines():
            self._line(line)

    def activity(self) -> Activity:
        """Shows the steps of something that takes long."""
        return Activity(self._out, indent=" " * 12)

    def bad(self, text: str) -> None:
        self._line(self._styled("31;1", text))

    def good(self, text: str) -> None:
        self._line(self._styled("32;1", text))

    def _line(self, text: str) -> None:
        self._wipe()
        self._out.write(text + "\n")
        self._out.flush()

    def _moving(self, text: str) -> None:
        if self._tty:
            self._out.write(f"\r\x1b[2K{text}")
            self._out.flush()

    def _wipe(self) -> None:
        if self._tty:
            self._out.write("\r\x1b[2K")

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._tty else text
