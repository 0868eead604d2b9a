"""Writes lessons as a folder of static files, for any path of any web server and for a browser that opens it from disk.

A browser reads no module and fetches nothing from disk, so what lessons share is style sheets and one classic script,
which adds the import map with the modules as data, and the page that frames show.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from understudy.page.export import lesson_elements_of
from understudy.page.static_files import linked_lesson_page, read_static

CONTENTS: Final = "understudy-lessons.txt"
"""The file that lists the files of the site, one a line. Only those are ever replaced."""
INDEX: Final = "index.html"
SHARED: Final = "shared"
_STYLE_SHEETS: Final = ("page.css", "dark.css", "lesson.css", "lesson_class.css", "lesson_site.css")
_SCRIPT: Final = "lessons.js"
_TOPICS: Final = {
    "The controller": ("election", "takeover", "zombie", "queue", "unknown-outcome", "two-hundred-runs"),
    "Leaders and replicas": ("leader", "clean-or-available", "preferred", "isr"),
    "Brokers and ZooKeeper": ("shutdown", "bounced", "zookeeper-away"),
    "Consumer groups": ("rebalance",),
}
_OTHERS: Final = "More lessons"


class NotOurs(Exception):
    """A file that is not of an earlier site is in the way. The message names it, and says what to do."""


class SiteLesson(NamedTuple):
    """A lesson of a site.

    Attributes:
        lesson: the JSON of a `PreparedLesson`.
        sides: the run folder of each side, by its name.
    """

    name: str
    title: str
    question: str
    minutes: int
    lesson: bytes
    sides: Mapping[str, Path]


def topic_of(name: str) -> str:
    """Return the topic under which the index lists a lesson."""
    return next((topic for topic, lessons in _TOPICS.items() if name in lessons), _OTHERS)


class LessonSite:
    """A folder with lessons, to which they are written one after the other.

    Raises:
        NotOurs: the path is not a folder, or one of the files is there and does not come from an earlier site.
        OSError: a file cannot be written.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self._folder = folder
        self._shown: list[SiteLesson] = []
        shared = [f"{SHARED}/{name}" for name in (*_STYLE_SHEETS, _SCRIPT)]
        self._files = [INDEX, *(f"{name}.html" for name in names), *shared]
        self._check()
        (folder / SHARED).mkdir(parents=True, exist_ok=True)
        earlier = self._earlier()
        (folder / CONTENTS).write_text("".join(f"{each}\n" for each in sorted({*earlier, *self._files})), "utf-8")
        self._page, script = linked_lesson_page(f"{SHARED}/", f"{SHARED}/{_SCRIPT}")
        (folder / SHARED / _SCRIPT).write_text(script, "utf-8")
        for name in _STYLE_SHEETS:
            (folder / SHARED / name).write_bytes(read_static(name) or b"")

    def add(self, lesson: SiteLesson) -> None:
        """Write the page of a lesson. Raises also NoSuchRun and TooLarge, as `lesson_page_of`."""
        place = self._page.index("<script")
        data = lesson_elements_of(lesson.lesson, lesson.sides)
        (self._folder / f"{lesson.name}.html").write_text(self._page[:place] + data + self._page[place:], "utf-8")
        self._shown.append(lesson)

    def finish(self) -> Path:
        """Write the index of the lessons that were added, and return its file."""
        file = self._folder / INDEX
        file.write_text(_index_of(self._shown), "utf-8")
        return file

    def _earlier(self) -> set[str]:
        file = self._folder / CONTENTS
        return set(file.read_text("utf-8").splitlines()) if file.is_file() else set()

    def _check(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise NotOurs(f"{self._folder} is a file; give a new folder, or one with an earlier site of lessons")
        ours = self._earlier()
        for name in self._files:
            if name not in ours and (self._folder / name).exists():
                raise NotOurs(
                    f"{self._folder / name} is there and is not in {CONTENTS}, so it is not replaced; give another "
                    "folder, or move that file away"
                )


def _index_of(lessons: list[SiteLesson]) -> str:
    topics = [topic for topic in (*_TOPICS, _OTHERS) if any(topic_of(each.name) == topic for each in lessons)]
    sections = "\n".join(_section(number, topic, lessons) for number, topic in enumerate(topics, 1))
    minutes = sum(each.minutes for each in lessons)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' file:; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lessons · Understudy</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{SHARED}/page.css">
<link rel="stylesheet" href="{SHARED}/dark.css" media="(prefers-color-scheme: dark)">
<link rel="stylesheet" href="{SHARED}/lesson_site.css">
</head>
<body class="site">
<main>
<h1>Lessons about Kafka’s controller</h1>
<p class="faint">{len(lessons)} lessons, {minutes} minutes. Each asks a question, lets you predict, and shows what
happened in recorded runs.</p>
{sections}
</main>
</body>
</html>
"""


def _section(number: int, topic: str, lessons: list[SiteLesson]) -> str:
    shown = sorted((each for each in lessons if topic_of(each.name) == topic), key=lambda each: each.minutes)
    rows = "\n".join(
        f'<li><a href="{html.escape(each.name)}.html"><b>{html.escape(each.title)}</b>'
        f'<span class="minutes">{each.minutes} min</span>'
        f"<span>{html.escape(' '.join(each.question.split()).replace('`', ''))}</span></a></li>"
        for each in shown
    )
    name = html.escape(topic)
    return (
        f'<section aria-labelledby="topic-{number}"><h2 id="topic-{number}">{name}</h2>\n<ul>\n{rows}\n</ul></section>'
    )
