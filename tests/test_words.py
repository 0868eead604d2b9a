"""Words of code and pages: a condition begins with *if*, and a noun is named, not replaced.

A phrase of `MOST` often stands for a plainer word. If it is right, it stays: each has a number, which may only fall.
"""

from __future__ import annotations

import re

import pytest

from tests.test_tidy import name_of, tracked_files

WHERE_FOR_IF = re.compile(r"\b(?:None|[Ee]mpty|none|null|[Aa]lso|[Oo]nly|[Hh]armless)\s+(?:# )?where\s(?!to\b)")

COUNTED = ("controller", "brokers", "foundation", "understudy", "devtools", "benchmarks", "tests", "docs")
MOST = {
    "where": 347,
    "that of": 12,
    "those of": 16,
    "so many": 4,
    ", too": 10,
    "go on": 5,
    "goes on": 16,
    "what is": 42,
}
"""Maximum number of times that a phrase is in the Python and Markdown files of the `COUNTED` folders.

Variables and keys named `where` count.
"""


def places_of(phrase: str, text: str) -> list[int]:
    """The lines on which a phrase begins; it may be broken over two of them."""
    words = re.escape(phrase).replace(r"\ ", r"\s+(?:# )?")
    pattern = re.compile(rf"(?<!\w){words}\b" if phrase[0].isalpha() else rf"{words}\b", re.IGNORECASE)
    return [text.count("\n", 0, found.start()) + 1 for found in pattern.finditer(text)]


def sentences_with(pattern: re.Pattern[str], text: str) -> list[str]:
    return [text[max(found.start() - 20, 0) : found.end() + 20] for found in pattern.finditer(text)]


def test_conditions_begin_with_if() -> None:
    found = {
        name_of(path): phrases
        for path in tracked_files()
        if path.suffix in {".py", ".md"} and path.name != "CHANGELOG.md"
        if (phrases := sentences_with(WHERE_FOR_IF, path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize("text", ["None if no broker leads", "counts also\n    if it is off", "Empty if it ends there"])
def test_a_where_for_an_if_is_found(text: str) -> None:
    assert not sentences_with(WHERE_FOR_IF, text)
    assert sentences_with(WHERE_FOR_IF, text.replace("if", "where"))


@pytest.mark.parametrize(("phrase", "most"), MOST.items(), ids=MOST)
def test_a_phrase_is_not_used_more_often(phrase: str, most: int) -> None:
    found = [
        f"{name_of(path)}:{line}: {phrase}"
        for path in tracked_files()
        if path.suffix in {".py", ".md"} and name_of(path).startswith(COUNTED)
        for line in places_of(phrase, path.read_text())
    ]
    listed = "\n".join(found)
    assert len(found) <= most, (
        f"{phrase!r} is there {len(found)} times, may be {most}: write the noun or *if*\n{listed}"
    )


def test_a_phrase_over_two_lines_is_counted() -> None:
    assert places_of("those of", "its values are\n# those\n# of a topic; Those of others") == [2, 3]
    assert places_of(", too", "one, too, and too") == [1]
    assert places_of("where", "Where it is, somewhere, whereas") == [1]
