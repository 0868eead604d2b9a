"""`Screen` shows a page on a terminal and redraws it in place."""

from __future__ import annotations

import shutil
from typing import Self, TextIO

_ENTER = "\x1b[?1049h\x1b[?25l"
"""Escape sequence for the terminal's other screen, without a cursor; `_LEAVE` brings back the former screen."""
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_END_OF_LINE = "\x1b[K"
_END_OF_SCREEN = "\x1b[J"


class Screen:
    """Takes the whole terminal while its block runs. If `out` is no terminal, it shows nothing."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_LEAVE)

    def draw(self, page: str, status: str) -> None:
        """Show as much of a page as fits, and a line of status below."""
        if not self._is_terminal:
            return
        columns, rows = shutil.get_terminal_size()
        lines = fitted(page.splitlines(), status, columns=columns, rows=rows)
        self._write(_HOME + "\n".join(line + _END_OF_LINE for line in lines) + _END_OF_SCREEN)

    def _write(self, text: str) -> None:
        if self._is_terminal:
            self._out.write(text)
            self._out.flush()


def fitted(page: list[str], status: str, *, columns: int, rows: int) -> list[str]:
    """Return the lines of a page and its status, cut to the size of a terminal."""
    room = max(rows - 2, 0)
    if len(page) > room:
        kept = max(room - 1, 0)
        page = [*page[:kept], f"… {len(page) - kept:,} more lines; a higher terminal shows them"]
    return [line[:columns] for line in (*page, "", status)][-rows:]
