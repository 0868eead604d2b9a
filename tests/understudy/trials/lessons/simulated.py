"""Runs lessons in the simulator, each once for all tests of a process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.timing import shared
from understudy.trials.lessons.document import Lesson
from understudy.trials.lessons.library import find, names
from understudy.trials.lessons.prepared_lesson import PreparedLesson, prepare_lesson
from understudy.trials.lessons.running import run_lesson
from understudy.trials.lessons.side_run import SIMULATED, SideRun

SWEEPS = ("two-hundred-runs",)
"""Lessons that take minutes."""
SHORT = tuple(name for name in names() if name not in SWEEPS)

_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


class Shown(NamedTuple):
    """A lesson that has been run."""

    lesson: Lesson
    runs: tuple[SideRun, SideRun]
    prepared: PreparedLesson
    folder: Path


@shared
def shown(name: str) -> Shown:
    lesson = find(name)
    _FOLDERS.append(tempfile.TemporaryDirectory())
    folder = Path(_FOLDERS[-1].name)
    runs = run_lesson(lesson, SIMULATED, folder)
    return Shown(lesson, runs, prepare_lesson(lesson, runs, SIMULATED, lesson.seed), folder)
