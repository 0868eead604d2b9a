"""Writes the page of a finished run as one HTML file that loads nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from understudy.foundation.times import duration
from understudy.page.recorded.runs import finished_run
from understudy.page.recorded.window import Window
from understudy.page.static_files import LESSON, page_in_one_file

MOST_BYTES: Final = 64 << 20
"""The largest size of the records in a file, compressed. A browser holds their text, about ten times as much."""
_BEST: Final = 9


class TooLarge(Exception):
    """The records do not fit into one file. The message says how large they are, and how to choose a part."""


def page_of(
    paths: Sequence[Path], wanted: str | None = None, window: Window | None = None, *, most_bytes: int = MOST_BYTES
) -> str:
    """Return the HTML of the page of one run.

    Args:
        wanted: the id of the run; needed if the logs hold several.
        window: the part of the run that is shown; None for all of it.

    Raises:
        NoSuchRun: as `finished_run`.
        TooLarge: the compressed records have more than `most_bytes`.
    """
    return page_in_one_file(_elements_of(paths, wanted, window, most_bytes))


def lesson_page_of(lesson: bytes, sides: Mapping[str, Path]) -> str:
    """Return the HTML of a lesson: its text, and the pages of its runs in frames.

    Args:
        lesson: the JSON of a `PreparedLesson`.
        sides: the run folder of each side, by its name.

    Raises:
        NoSuchRun, TooLarge: as `page_of`.
    """
    frame = page_in_one_file()
    data = _element("frame", "application/json", _text_of(frame)) + "\n" + lesson_elements_of(lesson, sides)
    return page_in_one_file(data, LESSON, frames=[frame])


def lesson_elements_of(lesson: bytes, sides: Mapping[str, Path]) -> str:
    """Return the HTML elements with a lesson and its runs, without the page that its frames share.

    Raises:
        NoSuchRun, TooLarge: as `page_of`.
    """
    elements = [_element("lesson", "application/json", _without_markup(lesson.decode()))]
    elements += [
        _element(f"side-{side}", "application/json", _text_of(_elements_of([folder]))) for side, folder in sides.items()
    ]
    return "\n".join(elements) + "\n"


def _elements_of(
    paths: Sequence[Path], wanted: str | None = None, window: Window | None = None, most_bytes: int = MOST_BYTES
) -> str:
    """Return the HTML elements with a run, which its page in one file reads. Raises as `page_of`."""
    run = finished_run(paths, wanted, window, level=_BEST)
    size = run.chunks.compressed_bytes
    if size > most_bytes:
        raise TooLarge(
            f"the {len(run.chunks)} records of run {run.name} have {size} bytes when compressed, and a file may have "
            f"{most_bytes}; choose a part of its {duration(run.lasts_us / 1000)} by --from SECONDS and --to SECONDS, "
            "or serve it by `understudy watch`"
        )
    facts = {**run.facts(_folder(paths)), "can_command": False, "verbs": [], "points": [], "point_actions": []}
    elements = [_element("run", "application/json", _text_of(facts))]
    elements += [
        _element(f"chunk-{number}", "text/plain", base64.b64encode(run.chunks.chunk(number)).decode())
        for number in range(run.chunks.count)
    ]
    return "\n".join(elements) + "\n"


def _folder(paths: Sequence[Path]) -> Path | None:
    return paths[0] if len(paths) == 1 and paths[0].is_dir() else None


def _element(name: str, kind: str, text: str) -> str:
    return f'<script type="{kind}" id="{name}">{text}</script>'


def _text_of(value: object) -> str:
    return _without_markup(msgspec.json.encode(value).decode())


def _without_markup(text: str) -> str:
    # Without `<` a text can neither end its element nor begin a comment in it, whatever names a log contains.
    return text.replace("<", "\\u003c")
