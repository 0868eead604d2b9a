"""`PlanAnswer`: sentences and tables, printed as text or as one HTML file that needs nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from understudy.history import writing
from understudy.history.writing import element

BAR_COLUMNS = 24
"""Width of the longest bar of a table, as text."""


class BadPlan(Exception):
    """A plan cannot be made from its input. The message names the value, and the expected one."""


class Heading(NamedTuple):
    """The title of what follows."""

    text: str


class Bar(NamedTuple):
    """A cell that is drawn as a bar.

    Attributes:
        length: the number that it stands for; `most` is the longest bar of its column.
    """

    length: int
    most: int


Cell: TypeAlias = str | Bar


class AnswerTable(NamedTuple):
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


Block: TypeAlias = str | Heading | AnswerTable
"""A part of an answer; a `str` is a paragraph."""


class PlanAnswer(NamedTuple):
    """A page of a plan."""

    title: str
    blocks: tuple[Block, ...]


def text_of(answer: PlanAnswer) -> str:
    """Return an answer as lines of text that end with a newline."""
    return "\n".join((answer.title, *_lines(answer.blocks))) + "\n"


def html_of(answer: PlanAnswer) -> str:
    """Return an answer as an HTML document that loads nothing."""
    return writing.page(answer.title, *map(_html, answer.blocks))


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    last_was_text = False
    for block in blocks:
        match block:
            case Heading(text):
                yield from ("", text)
            case AnswerTable(head, rows):
                yield from ("", *_table(head, rows))
            case _:
                yield from (() if last_was_text else ("",))
                yield from textwrap.wrap(block, writing.WIDTH)
        last_was_text = isinstance(block, str)


def _table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    shown = [tuple(head), *(tuple(map(_shown, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _shown(cell: Cell) -> str:
    if isinstance(cell, Bar):
        columns = round(BAR_COLUMNS * cell.length / cell.most) if cell.most else 0
        return "█" * max(columns, cell.length > 0)
    return cell


def _html(block: Block) -> str:
    match block:
        case Heading(text):
            return element("h2", text)
        case AnswerTable(head, rows):
            return writing.table(head, (map(_html_cell, row) for row in rows))
        case _:
            return block


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        width = round(240 * cell.length / cell.most) if cell.most else 0
        bar = element("rect", width=width, height=14)
        return element("svg", bar, width=240, height=14, aria_hidden="true")
    return cell
