"""Writes the HTML of `understudy.page.export` to a file, for the verbs that make one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from understudy.cli.arguments import Failed, reported_as
from understudy.page.export import TooLarge, page_of


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


def try_to_write_page(folder: Path, file: Path) -> bool:
    """Write the page of the run in a folder, and return whether it was written; otherwise print why not.

    The page is an addition to a result that must not be lost if the page is too large or the disk is full.
    """
    try:
        write_page(file, lambda: page_of([folder]))
    except Failed as failed:
        print(f"{file.name} is not written: {failed}", file=sys.stderr)
        return False
    return True
