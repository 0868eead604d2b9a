"""`Activity` shows the step of a long command: a moving line on a terminal, one plain line for each step elsewhere."""

from __future__ import annotations

import threading
import time
from typing import Self, TextIO

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REDRAWN_EVERY_S = 0.1


class Activity:
    """Shows the steps of one command while its block runs.

    On a terminal the current step is redrawn with the seconds since the beginning; the line disappears at the end. A
    thread draws it, because the command's own thread is busy. Elsewhere each step is printed once, when it begins.

    Args:
        indent: the text before each line.
        plain_lines: whether to print the steps if `out` is not a terminal.
    """

    def __init__(self, out: TextIO, *, indent: str = "", plain_lines: bool = True) -> None:
        self._out = out
        self._indent = indent
        self._plain_lines = plain_lines
        self._is_terminal = out.isatty()
        self._step = ""
        self._began = time.monotonic()
        self._over = threading.Event()
        self._drawing = threading.Thread(target=self._draw, name="understudy-activity", daemon=True)

    def __enter__(self) -> Self:
        if self._is_terminal:
            self._drawing.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._over.set()
            self._drawing.join()
            self._out.write("\r\x1b[2K")
            self._out.flush()

    def step(self, what: str) -> None:
        """Show `what` as the current step."""
        self._step = what
        if self._plain_lines and not self._is_terminal:
            self._out.write(f"{self._indent}… {what}\n")
            self._out.flush()

    def _draw(self) -> None:
        turn = 0
        while not self._over.wait(_REDRAWN_EVERY_S):
            if self._step:
                waited = time.monotonic() - self._began
                symbol = SPINNER[turn % len(SPINNER)]
                self._out.write(f"\r\x1b[2K{self._indent}{symbol} {self._step} … {waited:.1f} s")
                self._out.flush()
                turn += 1
