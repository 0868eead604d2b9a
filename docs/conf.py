"""Configures the site of these pages, which `make site` builds with Sphinx, MyST and Furo.

The pages are written for any reader of Markdown, so nothing in them is for Sphinx. Two things are done as they are
read: a page named index.md gets its links as entries of the navigation, and links to files outside of docs/ become
text, because a site has no such files. With the tag `lessons` the navigation has also the lessons, which `make site`
writes into the site.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

project = "Understudy"
html_title = project
extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]

# Anchors are those that are made of headings elsewhere, so that a link works in both.
myst_heading_anchors = 6
smartquotes = False
highlight_language = "text"  # of blocks that name no language: commands and their output
# Blocks of mermaid are drawn by readers of Markdown that know it. Here they stay text: a browser would have to load its
# script from a network.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_use_index = False

DOCS = Path(__file__).parent.resolve()

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#:\s]+)(?:#[^)\s]*)?\)")
_AFTER_THE_THEME = 900
"""Priority of an event handler that runs after the ones of the theme, which have 500."""


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _read)
    if app.tags.has("lessons"):
        app.connect("html-page-context", _link_lessons, priority=_AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Sphinx, page: str, source: list[str]) -> None:
    folder = (DOCS / page).parent
    text = _LINK.sub(lambda link: _inside(link, folder), source[0])
    source[0] = text + _navigation(text) if Path(page).name == "index" else text


def _link_lessons(app: Sphinx, page: str, template: str, context: dict[str, Any], document: object) -> None:
    """Put the lessons above the pages in the navigation of a page."""
    address = context["pathto"]("lessons/index.html", resource=True)
    context["furo_navigation_tree"] = (
        '<p class="caption" role="heading"><span class="caption-text">Lessons</span></p>\n<ul><li class="toctree-l1">'
        f'<a class="reference internal" href="{address}">Predict a failover, and see it happen</a></li></ul>\n'
        f"{context.get('furo_navigation_tree', '')}"
    )


def _inside(link: re.Match[str], folder: Path) -> str:
    """The link, if it stays in docs/, else its text, with the path behind it if the text does not have its name."""
    target = (folder / link["target"]).resolve()
    if target.is_relative_to(DOCS):
        return link[0]
    named = target.stem in link["text"]
    return link["text"] if named else f"{link['text']} (`{target.relative_to(DOCS.parent)}`)"


def _navigation(text: str) -> str:
    """One tree of pages for each section, in the order of its links; a page without sections has one tree."""
    headings = list(_HEADING.finditer(text))
    if not headings:
        return _tree("", text)
    ends = [*(heading.start() for heading in headings), len(text)]
    return "".join(
        _tree(f":caption: {heading[1]}\n", text[start:end])
        for heading, (start, end) in zip(headings, pairwise(ends), strict=True)
    )


def _tree(caption: str, section: str) -> str:
    pages = dict.fromkeys(link["target"] for link in _LINK.finditer(section))
    return "\n".join(["", "```{toctree}", f":hidden:\n{caption}", *pages, "```", ""])
