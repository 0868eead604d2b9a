"""Finds lesson files: those that come with Understudy by name, in their order; others by path."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from understudy.clusters.problems import BadExperiment, Problem, one_of
from understudy.trials.lessons.document import Lesson
from understudy.trials.lessons.reading import read_lesson_file

FILES: Final = Path(__file__).with_name("files")
RECORDED: Final = Path(__file__).with_name("recorded")
SUFFIX: Final = ".yaml"


def names() -> tuple[str, ...]:
    """The names of the lessons that come with Understudy, in the order of their numbers."""
    return tuple(path.stem.partition("-")[2] for path in sorted(FILES.glob(f"*{SUFFIX}")))


def find(word: str) -> Lesson:
    """Read the lesson of a name, of a number, or of a file.

    Raises:
        BadExperiment: there is none, or it cannot be used.
    """
    for path in sorted(FILES.glob(f"*{SUFFIX}")):
        number, _, name = path.stem.partition("-")
        if word == name or (word.isdecimal() and int(word) == int(number)):
            return read_lesson_file(path)
    path = Path(word)
    if path.suffix in (SUFFIX, ".yml") or path.exists():
        return read_lesson_file(path)
    raise BadExperiment(word, [Problem(1, str(one_of(word, names(), "file and no lesson of Understudy")))])


def archive_of(lesson: Lesson) -> Path:
    """Return the file with the recorded runs of a lesson, whether it exists or not."""
    return RECORDED / f"{lesson.name}.tar.xz"
