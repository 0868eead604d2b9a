"""Finds out which version of Understudy runs, for the record `RunDescribed`."""

from __future__ import annotations

import os
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from understudy.extras import DISTRIBUTION

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHOWN_DIGITS = 12


@cache
def software_version() -> str:
    """Return the version of the installed package; empty if it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def software_commit(checkout: Path = Path(__file__).parents[2]) -> str:
    """Return the commit of the sources: `UNDERSTUDY_COMMIT`, or the commit that their Git repository has checked out.

    It is empty if there is neither. Uncommitted changes are ignored.
    """
    given = os.environ.get("UNDERSTUDY_COMMIT", "")
    return given[:_SHOWN_DIGITS] or _checked_out(checkout)[:_SHOWN_DIGITS]


def _checked_out(checkout: Path) -> str:
    """Return the commit that is checked out; empty if there is no repository. No `git` is started."""
    folder = checkout / ".git"
    try:
        if folder.is_file():  # a further work tree, whose own folder is elsewhere
            folder = checkout / folder.read_text().removeprefix("gitdir:").strip()
        head = (folder / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head if _COMMIT.fullmatch(head) else ""
        name = head.removeprefix("ref: ")
        common = folder / (folder / "commondir").read_text().strip() if (folder / "commondir").is_file() else folder
        if (common / name).is_file():
            found = (common / name).read_text().strip()
            return found if _COMMIT.fullmatch(found) else ""
        for line in (common / "packed-refs").read_text().splitlines():
            commit, _, packed = line.partition(" ")
            if packed == name and _COMMIT.fullmatch(commit):
                return commit
    except (OSError, UnicodeDecodeError):
        pass
    return ""
