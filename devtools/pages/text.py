"""Writes Markdown in lines of at most 120 columns."""

from __future__ import annotations

import textwrap

COLUMNS = 120


def bullet(text: str) -> str:
    """One item of a list, wrapped."""
    return textwrap.fill(
        text, COLUMNS, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def paragraph(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)
