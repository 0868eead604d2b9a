"""`Paper`: sentences and tables, printed as text or as one HTML file that needs nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple, TypeAlias

BAR_COLUMNS = 24
"""The width of the longest bar of a table, as text."""

TEXT_COLUMNS = 100
"""Where the lines of a paragraph end, as text."""


class BadPlan(Exception):
    """Something that a plan was asked for does not exist. The message names the value, and what is expected."""


class Heading(NamedTuple):
    """The title of what follows."""

    text: str


class Bar(NamedTuple):
    """A cell that is drawn as a bar.

    Attributes:
        length: what it stands for; `most` is the longest bar of its column.
    """

    length: int
    most: int


Cell: TypeAlias = str | Bar


class Table(NamedTuple):
    """Rows of cells under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


Block: TypeAlias = str | Heading | Table
"""A part of a paper; a `str` is a paragraph."""


class Paper(NamedTuple):
    """A page of a plan."""

    title: str
    blocks: tuple[Block, ...]


def text_of(paper: Paper) -> str:
    """Return a paper as lines of text that end with a newline."""
    return "\n".join((paper.title, *_lines(paper.blocks))) + "\n"


def html_of(paper: Paper) -> str:
    """Return a paper as an HTML document that loads nothing."""
    body = "\n".join(map(_html, paper.blocks))
    title = escape(paper.title)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n<style>{_STYLE}</style>\n'
        f"<h1>{title}</h1>\n{body}\n</html>\n"
    )


_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: 0.2rem 1.2rem 0.2rem 0; border-bottom: 1px solid #8886; vertical-align: top; }
rect { fill: #3a7ca5; }
"""


def _lines(blocks: Iterable[Block]) -> Iterator[str]:
    last_was_text = False
    for block in blocks:
        match block:
            case Heading(text):
                yield from ("", text)
            case Table(head, rows):
                yield from ("", *_table(head, rows))
            case _:
                yield from (() if last_was_text else ("",))
                yield from textwrap.wrap(block, TEXT_COLUMNS)
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
            return f"<h2>{escape(text)}</h2>"
        case Table(head, rows):
            heads = "".join(f"<th>{escape(each)}</th>" for each in head)
            lines = "\n".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows)
            return f"<table>\n<tr>{heads}</tr>\n{lines}\n</table>"
        case _:
            return f"<p>{escape(block)}</p>"


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Bar):
        width = round(240 * cell.length / cell.most) if cell.most else 0
        return f'<td><svg width="240" height="14" aria-hidden="true"><rect width="{width}" height="14"/></svg></td>'
    return f"<td>{escape(cell)}</td>"
