"""Writes pages: numbers and lines of text, and HTML with escaped content.

An HTML page is one file with one style sheet. It needs no network and no script, and is readable in light and dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

WIDTH = 100
"""Number of columns of a page of text."""

# The colours s1 to s6 are from the palette of Okabe and Ito; dark pages have lighter ones.
_STYLE = """
:root { color-scheme: light dark; --text: #1a1a1a; --faint: #595959; --back: #ffffff; --grid: #d9d9d9;
  --good: #006b4f; --bad: #b3261e;
  --s1: #0072b2; --s2: #d55e00; --s3: #009e73; --s4: #a6408f; --s5: #8a6d00; --s6: #4d4d4d; }
@media (prefers-color-scheme: dark) { :root { --text: #ececec; --faint: #b3b3b3; --back: #15171a; --grid: #3a3d42;
  --good: #2fc99b; --bad: #ff8a80;
  --s1: #56b4e9; --s2: #ff8c42; --s3: #2fc99b; --s4: #e08fc8; --s5: #e6c229; --s6: #c4c4c4; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 2rem auto;
  max-width: 68rem; padding: 0 1rem; }
a { color: var(--s1); } h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.note, caption { color: var(--faint); text-align: left; } .verdict { font-size: 1.15rem; font-weight: 600; }
.held { color: var(--good); } .violated { color: var(--bad); } .changed { font-weight: 600; }
table { border-collapse: collapse; margin: .6rem 0 1.4rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem 1.2rem .2rem 0; text-align: left; border-bottom: 1px solid var(--grid); vertical-align: top; }
.numbers { width: 100%; } .numbers :is(th, td):not(:first-child) { text-align: right; }
td small { color: var(--faint); display: block; } .wide { overflow-x: auto; }
code, pre { font-size: .9em; } pre, p code { overflow-wrap: anywhere; } pre { white-space: pre-wrap; }
figure { margin: 0; } .panels { display: grid; gap: 2rem 2.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
svg { max-width: 100%; } .plot { display: block; font-variant-numeric: tabular-nums; }
.plot a:hover circle { fill-opacity: 1; stroke: var(--text); stroke-width: 2px; } td rect { fill: var(--s1); }
summary { cursor: pointer; } tr:has(:target) { background: var(--grid); }
"""


# ------------------------------------------------------------------ text


def counted(number: int, noun: str) -> str:
    """Return a number and its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `11th`."""
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def cut(text: str, width: int) -> str:
    """Return a text with at most `width` characters; a longer one ends with an ellipsis."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def fitted(line: str) -> str:
    """Return a line of a page with control characters escaped, cut to `WIDTH`."""
    return cut("".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line.rstrip()), WIDTH)


# ------------------------------------------------------------------ HTML


class Html(str):
    """A text that is HTML or SVG already, and is not escaped."""

    __slots__ = ()


def joined(content: Iterable[str]) -> Html:
    """Join texts; texts that are not `Html` are escaped."""
    return Html("".join(each if isinstance(each, Html) else escape(each) for each in content))


def element(name: str, *content: str, **attributes: object) -> Html:
    """Return an element of HTML or SVG.

    Args:
        content: its content; texts that are not `Html` are escaped. Without content it is an empty SVG element.
        attributes: a `_` stands for a hyphen, except for one at the end: `class_` is `class`.
    """
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(str(each))}"' for key, each in attributes.items())
    return Html(f"<{name}{written}>{joined(content)}</{name}>" if content else f"<{name}{written}/>")


def note(text: str) -> Html:
    """Return a paragraph that only explains."""
    return element("p", text, class_="note")


def table(head: Sequence[str], rows: Iterable[Iterable[str]], *, caption: str = "", numbers: bool = False) -> Html:
    """Return a table.

    Args:
        numbers: all columns but the first one have numbers.
    """
    parts = [element("caption", caption)] if caption else []
    parts.append(element("thead", element("tr", *(element("th", each, scope="col") for each in head))))
    parts.append(element("tbody", joined(element("tr", *(element("td", cell) for cell in row)) for row in rows)))
    return element("div", element("table", *parts, **({"class": "numbers"} if numbers else {})), class_="wide")


def page(title: str, *sections: str) -> str:
    """Return a whole page; the sections follow the title."""
    body = "\n".join((element("h1", title), *map(_paragraph, sections)))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{element("title", title)}\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _paragraph(section: str) -> Html:
    return section if isinstance(section, Html) else element("p", section)
