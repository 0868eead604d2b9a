"""Proposes the word that a person may have meant, for the messages about unknown words."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the nearest of the known words; empty if none is near."""
    import difflib  # noqa: PLC0415  only errors need it, and the help is to be fast

    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
