"""QR codes of an address: as SVG for a page, and as characters for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

import segno

_QUIET: Final = 4
"""Width of the light border in modules, which the standard asks for."""
_HALVES: Final = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
_BLACK_ON_WHITE: Final = "\x1b[38;5;16;48;5;231m"
_NORMAL: Final = "\x1b[0m"


def qr_svg(text: str) -> bytes:
    """Return the QR code of a text as an SVG picture, dark on white in both themes."""
    code = segno.make_qr(text, error="m")
    drawn: str = code.svg_inline(border=_QUIET, light="#fff", omitsize=True)
    # A picture of its own needs the namespace, an element inside of HTML does not.
    return drawn.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).encode()


def qr_lines(text: str) -> list[str]:
    """Return the QR code of a text as lines for a terminal, two rows of modules in each, black on white."""
    rows = [tuple(map(bool, row)) for row in segno.make_qr(text, error="m").matrix_iter(border=_QUIET)]
    return [f"{_BLACK_ON_WHITE}{line}{_NORMAL}" for line in half_blocks(rows)]


def half_blocks(rows: Sequence[Sequence[bool]]) -> list[str]:
    """Return rows of dark and light modules as lines of half blocks."""
    return [
        "".join(_HALVES[upper, lower] for upper, lower in zip_longest(above, below, fillvalue=False))
        for above, below in zip_longest(rows[::2], rows[1::2], fillvalue=())
    ]
