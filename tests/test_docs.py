"""Tests of the Markdown pages: named paths and anchors exist, ids are defined, lines end at 120 columns.

Every id that code, tests or pages name has to be defined in a page.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from devtools.pages.architecture import rooms_of_brokers
from devtools.pages.source import ROOT, parse
from devtools.pages.text import COLUMNS
from tests.test_tidy import name_of, product_files, tracked_files
from tests.timing import shared

PAGES = [path for path in tracked_files() if path.suffix == ".md"]

# ------------------------------------------------------------------ paths

_FOLDERS = "foundation|controller|brokers|understudy|tests|benchmarks|docs"
_PATH = re.compile(rf"(?<![\w/.:-])(?<!schema: )(?:{_FOLDERS})/(?:[\w.-]+/)*[\w.-]*(?<![.])")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_in_a_page_exists(page: Path) -> None:
    text = page.read_text()
    named = [ROOT / path for path in _PATH.findall(text)]
    linked = [page.parent / target for target in _LINK.findall(text)]
    assert [path.relative_to(ROOT).as_posix() for path in (*named, *linked) if not path.resolve().exists()] == []


# ------------------------------------------------------------------ links

_ANCHORED = re.compile(r"\]\(([^)#:\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
README_LINES = 120
"""Maximum number of lines of the README, the front page; longer texts belong in docs/."""


def outside_blocks(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return _FENCE.sub("", page.read_text())


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub and the site make them; the second of equal ones ends with `-1`."""
    found: set[str] = set()
    for heading in _HEADING.findall(outside_blocks(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w -]", "", words).replace(" ", "-")
        repeated = (f"{anchor}-{number}" for number in count(1))
        found.add(anchor if anchor not in found else next(each for each in repeated if each not in found))
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_anchor_in_a_link_is_a_heading(page: Path) -> None:
    links = [((page.parent / target).resolve() if target else page, anchor) for target, anchor in anchored(page)]
    assert [f"{name_of(target)}#{anchor}" for target, anchor in links if anchor not in anchors(target)] == []


def anchored(page: Path) -> list[tuple[str, str]]:
    """The path and the anchor of each link with an anchor; the path is empty within a page."""
    return _ANCHORED.findall(outside_blocks(page))


def test_anchors_are_made_of_headings(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One: `two`, three\n\n```\n# none\n```\n\n## [A](b.md) ISR\n## A ISR\n\n[a](c.md#d) [e](#f)\n")
    assert anchors(page) == {"one-two-three", "a-isr", "a-isr-1"}
    assert anchored(page) == [("c.md", "d"), ("", "f")]


def test_every_page_of_docs_is_reachable_from_the_first() -> None:
    first = ROOT / "docs/index.md"
    found, waiting = {first}, [first]
    while waiting:
        page = waiting.pop()
        linked = {(page.parent / target).resolve() for target in _LINK.findall(outside_blocks(page))}
        new = {target for target in linked - found if target.suffix == ".md" and target.is_relative_to(ROOT / "docs")}
        found |= new
        waiting += new
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} == found


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


# ------------------------------------------------------------------ ids


class Mention(NamedTuple):
    """An id, and the place where it is named."""

    id: str
    where: str


_ID = re.compile(r"(?<![\w+-])[A-Z]{1,4}-?\d+[a-z]?(?![\w-])")
_DEFINITION = re.compile(r"\*\*([A-Z]{1,4}-?\d+[a-z]?)\*\*(?=(.*(?:\n  .+)*))")
_COMMENTED_ID = re.compile(rf"#.*{_ID.pattern}")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NO_IDS = re.compile(r"(?:KIP|ISO|UTF|CRC|SHA)-\d+|IV\d|(?:A|E|N|TID|BLE|SIM|PERF|RUF)\d{3}|HTTP\d|S3|ISO8601")
"""Names that look like ids of ours: a proposal of Kafka's, an encoding, a store, a rule of ruff's."""


def definitions() -> dict[str, str]:
    """The definition of each id in the pages, which define it in bold."""
    return {name: text for page in PAGES for name, text in _DEFINITION.findall(page.read_text())}


_STEP = re.compile(r"^ +([A-Z]\d+)\.? +(\S.*)", re.MULTILINE)


def steps(path: Path) -> dict[str, str]:
    """The steps that a module's docstring numbers; they count in that module only."""
    return dict(_STEP.findall(ast.get_docstring(parse(name_of(path))) or "")) if path.suffix == ".py" else {}


def is_defined(name: str, defined: dict[str, str]) -> bool:
    """Whether a page defines `name`; FO-5c is the part (c) of FO-5, and C4 stands for C4a, C4b and C4c."""
    whole, part = name[:-1], name[-1]
    if part.isdigit():
        return name in defined or f"{name}a" in defined
    return name in defined or f"({part})" in defined.get(whole, "")


@shared
def mentions() -> tuple[Mention, ...]:
    """The ids in pages, in docstrings and comments of all Python files, in product constants, and in `spec` marks."""
    return tuple(_mentions())


def _mentions() -> Iterator[Mention]:
    for page in PAGES:
        yield from _in_text(
            name_of(page), 1, _FENCE.sub(lambda fence: "\n" * fence.group().count("\n"), page.read_text())
        )
    product = {name_of(path) for path in product_files()}
    for path in tracked_files():
        if path.suffix == ".py":
            yield from _in_python(path, constants=name_of(path) in product)


def _in_text(where: str, line: int, text: str) -> Iterator[Mention]:
    for number, content in enumerate(text.splitlines(), line):
        for name in _ID.findall(content):
            if not _NO_IDS.fullmatch(name):
                yield Mention(name, f"{where}:{number}")


def _in_python(path: Path, *, constants: bool) -> Iterator[Mention]:
    source = path.read_text()
    where = name_of(path)
    if not _ID.search(source):
        return  # as three of four files: parsing them takes seconds
    # Few files have a comment with an id, and reading the tokens of all takes seconds.
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if _COMMENTED_ID.search(source) else ()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            yield from _in_text(where, token.start[0], token.string.partition("noqa:")[0])
    for node in ast.walk(parse(where)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from _in_text(where, node.lineno, text)
            case ast.Call(func=ast.Attribute(attr="spec"), args=arguments):
                named = [str(each.value) for each in arguments if isinstance(each, ast.Constant)]
                yield from _in_text(where, node.lineno, " ".join(named))
            case ast.Constant(value=str(text)) if constants and _ID.fullmatch(text):
                yield from _in_text(where, node.lineno, text)


def test_every_id_is_defined_in_a_page() -> None:
    defined = definitions()
    unknown = [
        f"{where}: {name}"
        for name, where in mentions()
        if not is_defined(name, defined) and name not in steps(ROOT / where.rpartition(":")[0])
    ]
    assert sorted(set(unknown)) == []


def test_ids_are_found_wherever_they_are_named() -> None:
    found = {mention.id for mention in mentions()}
    assert {"PSM-5", "C4a", "D14", "R-5", "BUG-19", "LG-22", "L1", "T2"} <= found
    defined = definitions()
    assert is_defined("FO-5c", defined)
    assert not is_defined("FO-5z", defined)
    assert not is_defined("PSM-99", defined)
    assert {"U1", "A2", "B8"} <= steps(ROOT / "controller/reassignment/phases.py").keys()
    assert {name for name, _ in _in_text("a", 1, "KIP-101, UTF-8 and 3.9-IV0, EL-3 (RA-12): C4b")} == {
        "EL-3",
        "RA-12",
        "C4b",
    }


# ------------------------------------------------------------------ columns


def too_long(text: str) -> list[int]:
    """The numbers of lines longer than 120 columns. Tables cannot wrap, and blocks of code show output."""
    lines = _FENCE.sub(lambda fence: "\n" * fence.group().count("\n"), text).splitlines()
    return [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS and not line.startswith("|")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_of_a_page_end_at_120_columns(page: Path) -> None:
    assert too_long(page.read_text()) == []


def test_a_long_line_is_found() -> None:
    assert too_long(f"short\n{'long ' * 30}\n| {'cell ' * 30} |\n```\n{'code ' * 30}\n```\n") == [2]


# ------------------------------------------------------------------ the order of rooms


def test_the_architecture_lists_the_rooms_of_brokers_in_the_order_of_their_contract() -> None:
    listed = re.findall(
        r"^\| `brokers/(\w+)(?:/|\.py)` \|", (ROOT / "docs/inside/architecture.md").read_text(), re.MULTILINE
    )
    assert listed == [room for layer in rooms_of_brokers() for room in layer]
