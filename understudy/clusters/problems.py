"""`BadExperiment`: an experiment file that cannot be used, with every problem and its line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from understudy.clusters.nearest_word import did_you_mean


class Problem(NamedTuple):
    """One problem of a file. Lines count from 1."""

    line: int
    message: str


class BadExperiment(Exception):
    """An experiment file cannot be used. The message has one line for each problem, `FILE:LINE: PROBLEM`."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(f"{source}:{problem.line}: {problem.message}" for problem in self.problems))


class BadValue(Exception):
    """A value cannot be used. The message names the value and the expected form; the reader adds the line."""


def one_of(word: object, known: Sequence[str], what: str) -> BadValue:
    """Return the error for a word that is none of `known`, with the nearest of them if one is near."""
    return BadValue(f"{word!r} is no {what}{did_you_mean(str(word), known)} (there are: {', '.join(known)})")
