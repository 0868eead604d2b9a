"""The counts of a class, as they are kept: a JSON object, and a small HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from understudy.history.writing import Html, counted, element, page, table
from understudy.page.classroom.classroom import Counts

VERSION: Final = 1
"""The version of the JSON."""
_WIDTH: Final = 320
_HEIGHT: Final = 14


class ClassResults(msgspec.Struct, frozen=True, kw_only=True):
    """What a class has answered. It has no names, and nothing about a single phone.

    Attributes:
        lesson: the name of the lesson.
        date: the day and the time of the class, UTC.
        phones: the number of phones that joined.
    """

    version: int = VERSION
    lesson: str
    title: str
    date: str
    phones: int
    questions: tuple[Counts, ...]


def results_page(results: ClassResults) -> str:
    """Return the counts as an HTML page."""
    sections: list[str] = [f"{results.date} · {counted(results.phones, 'phone')} took part, without names."]
    for counts in results.questions:
        sections += [element("h2", counts.question.text), _answers(counts)]
    if not results.questions:
        sections.append("The class was asked no question.")
    return page(f"{results.title}: a class", *sections)


def _answers(counts: Counts) -> Html:
    tally = counts.tally
    right = "" if tally.are_right is None else f", {tally.are_right} of them right"
    caption = f"{counted(tally.answered, 'answer')}{right}"
    most = max(tally.counts, default=0)
    if counts.question.choices:
        place = None if tally.right is None else tally.right.value
        rows = [
            (f"{'✓ ' if number == place else ''}{text}", str(votes), _bar(votes, most))
            for number, (text, votes) in enumerate(zip(counts.question.choices, tally.counts, strict=True))
        ]
        return table(("answer", "votes", ""), rows, caption=caption)
    return table(("", counts.question.unit), _numbers(counts), caption=caption)


def _numbers(counts: Counts) -> Sequence[tuple[str, str]]:
    tally = counts.tally
    right = [] if tally.right is None else [("the right answer", f"{tally.right.value:g}")]
    if not tally.numbers:
        return right
    return [
        *right,
        ("median of the class", f"{tally.median:g}"),
        ("lowest", f"{tally.numbers[0]:g}"),
        ("highest", f"{tally.numbers[-1]:g}"),
        ("all", ", ".join(f"{each:g}" for each in tally.numbers)),
    ]


def _bar(votes: int, most: int) -> Html:
    width = round(_WIDTH * votes / most) if most else 0
    bar = element("rect", width=width, height=_HEIGHT)
    return element("svg", bar, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH, height=_HEIGHT, aria_hidden="true")
