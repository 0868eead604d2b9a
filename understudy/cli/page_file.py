"""Writes the HTML of `understudy.page.export` to a file, for the verbs that make one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.cli.arguments import Failed, reported_as
from understudy.page.export import TooLarge


def write_page(file: Path, make: Callable[[], str], option: str = "") -> str:
    """Write what `make` returns, and return a line with the name and the size of the file.

    Args:
        option: the option of the command line that names the file, for messages.

    Raises:
        Failed: the page is too large for a file, or the file cannot be written.
        NoSuchRun: as `make`.
    """
    with reported_as(Failed, TooLarge):
        html = make()
    with reported_as(Failed, OSError, about=option):
        file.write_text(html, encoding="utf-8")
    return f"{file}  {file.stat().st_size:,} bytes; open it in a browser"
