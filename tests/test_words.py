"""Words of code and pages: a condition begins with *if*."""

from __future__ import annotations

import re

import pytest

from tests.test_tidy import name_of, tracked_files

WHERE_FOR_IF = re.compile(r"\b(?:None|[Ee]mpty|none|null|[Aa]lso|[Oo]nly|[Hh]armless)\s+(?:# )?where\s(?!to\b)")


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
