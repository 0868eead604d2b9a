"""Finds experiment files: those that come with Understudy by name, others by path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from understudy.clusters.problems import BadExperiment, Problem
from understudy.clusters.problems import one_of as _one_of

SCENARIOS: Final = Path(__file__).parent.with_name("scenarios")
SUFFIX: Final = ".yaml"


def names() -> tuple[str, ...]:
    """The names of the experiments that come with Understudy, sorted."""
    return tuple(sorted(path.stem for path in SCENARIOS.glob(f"*{SUFFIX}")))


def find(word: str) -> Path:
    """Return the file of a name or a path.

    Raises:
        BadExperiment: there is neither such a file nor such a name.
    """
    if word in names():
        return SCENARIOS / f"{word}{SUFFIX}"
    path = Path(word)
    if path.suffix in (SUFFIX, ".yml") or path.exists():
        return path
    raise BadExperiment(word, [Problem(1, str(_one_of(word, names(), "file and no experiment of Understudy")))])
