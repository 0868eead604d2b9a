"""Reads pictures in tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from understudy.history.plots.distribution import Dot, Group

SVG = "{http://www.w3.org/2000/svg}"


def pictures(page: str) -> list[ElementTree.Element]:
    """The outer SVG elements of a page or a text."""
    return [
        ElementTree.fromstring(svg)
        for svg in re.findall(r'<svg class="plot".*?</svg>(?!<g|<line|<text|</svg)', page, re.DOTALL)
    ]


def texts(picture: ElementTree.Element) -> list[str]:
    """The words of a picture."""
    return ["".join(text.itertext()).replace("\u00a0", " ").strip() for text in picture.iter(f"{SVG}text")]


def places(picture: ElementTree.Element) -> list[float]:
    """The places of the dots, in per cent."""
    return [float(circle.attrib["cx"].removesuffix("%")) for circle in picture.iter(f"{SVG}circle")]


def group(name: str, values: list[float], *, link: str = "") -> Group:
    """A group with a dot for each value."""
    ordered = sorted(values)
    median = ordered[(len(ordered) - 1) // 2] if ordered else None
    return Group(
        name=name,
        n=len(values),
        dots=[
            Dot(value=value, run=f"{name}-{place}", said=f"{place}: {value:g}", link=link and f"{link}{place}")
            for place, value in enumerate(ordered)
        ],
        median=median,
        median_said=f"{median:g}" if median is not None else "—",
    )
