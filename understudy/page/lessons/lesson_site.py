"""Writes lessons as a folder of static files, for any path of any web server and for a browser that opens it from disk.

A browser reads no module and fetches nothing from disk, so what lessons share is style sheets and one classic script,
which adds the import map with the modules as data, and the page that frames show. The name of a shared file has a
digest of its content, so that a cache of a web server never combines a page with the files of another version.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from understudy.page.export import lesson_elements_of
from understudy.page.static_files import icon, linked_lesson_page, linked_style_sheets

CONTENTS: Final = "understudy-lessons.txt"
"""The file that lists the files of the site, one a line. Only those are ever replaced."""
INDEX: Final = "index.html"
SHARED: Final = "shared"
_SCRIPT: Final = "lessons.js"
_DIGITS: Final = 12
"""Number of hexadecimal digits of the digest in the name of a shared file."""
_TOPICS: Final = {
    "The controller": ("election", "takeover", "zombie", "queue", "unknown-outcome", "two-hundred-runs", "new-topic"),
    "Leaders and replicas": ("leader", "clean-or-available", "preferred", "isr", "acks", "two-leaders", "truncation"),
    "Brokers and ZooKeeper": ("shutdown", "bounced", "zookeeper-away", "two-data-centres", "deleted-controller"),
    "Consumer groups": ("rebalance",),
    "KRaft": ("kraft",),
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
        self._shared: dict[str, bytes] = {}
        self._page = linked_lesson_page(_SCRIPT, self._share)
        self._head = linked_style_sheets(_HEAD.replace("</head>", f"{icon()}\n</head>"), self._share)
        self._files = {INDEX, *(f"{name}.html" for name in names), *self._shared}
        self._check()
        (folder / SHARED).mkdir(parents=True, exist_ok=True)
        self._list(self._earlier() | self._files)
        for name, content in self._shared.items():
            (folder / name).write_bytes(content)

    def _share(self, name: str, content: bytes) -> str:
        """Note a file for the lessons to share, and return its address."""
        stem, _, suffix = name.rpartition(".")
        address = f"{SHARED}/{stem}.{hashlib.sha256(content).hexdigest()[:_DIGITS]}.{suffix}"
        self._shared[address] = content
        return address

    def add(self, lesson: SiteLesson) -> None:
        """Write the page of a lesson. Raises also NoSuchRun and TooLarge, as `lesson_page_of`."""
        place = self._page.index("<script")
        data = lesson_elements_of(lesson.lesson, lesson.sides)
        (self._folder / f"{lesson.name}.html").write_text(self._page[:place] + data + self._page[place:], "utf-8")
        self._shown.append(lesson)

    def finish(self) -> Path:
        """Write the index of the lessons that were added, and return its file.

        Shared files of earlier versions are removed, unless a lesson that was not written again links them.
        """
        file = self._folder / INDEX
        file.write_text(self._head + _body_of(self._shown), "utf-8")
        listed = self._earlier()
        pages = [(self._folder / name).read_text("utf-8") for name in listed if self._is_page(name)]
        unused = {name for name in listed if name.startswith(f"{SHARED}/") and not any(name in page for page in pages)}
        for name in unused:
            (self._folder / name).unlink(missing_ok=True)
        self._list(listed - unused)
        return file

    def _is_page(self, name: str) -> bool:
        return name.endswith(".html") and (self._folder / name).is_file()

    def _list(self, files: set[str]) -> None:
        (self._folder / CONTENTS).write_text("".join(f"{each}\n" for each in sorted(files)), "utf-8")

    def _earlier(self) -> set[str]:
        file = self._folder / CONTENTS
        return set(file.read_text("utf-8").splitlines()) if file.is_file() else set()

    def _check(self) -> None:
        if self._folder.exists() and not self._folder.is_dir():
            raise NotOurs(f"{self._folder} is a file; give a new folder, or one with an earlier site of lessons")
        ours = self._earlier()
        for name in sorted(self._files):
            if name not in ours and (self._folder / name).exists():
                raise NotOurs(
                    f"{self._folder / name} is there and is not in {CONTENTS}, so it is not replaced; give another "
                    "folder, or move that file away"
                )


_HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' file:; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Lessons · Understudy</title>
<link rel="stylesheet" href="/static/page.css">
<link rel="stylesheet" href="/static/dark.css" media="(prefers-color-scheme: dark)">
<link rel="stylesheet" href="/static/lesson_site.css">
</head>
"""


def _body_of(lessons: list[SiteLesson]) -> str:
    topics = [topic for topic in (*_TOPICS, _OTHERS) if any(topic_of(each.name) == topic for each in lessons)]
    sections = "\n".join(_section(number, topic, lessons) for number, topic in enumerate(topics, 1))
    minutes = sum(each.minutes for each in lessons)
    return f"""<body class="site">
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
