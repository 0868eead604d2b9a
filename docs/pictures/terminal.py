"""Draws what a command printed as an SVG: `understudy demo | python docs/pictures/terminal.py >
docs/pictures/demo.svg`.

Plain shapes and text, no fonts or scripts from elsewhere, so that the picture shows wherever the README does.
"""

from __future__ import annotations

import html
import sys

WIDTH, LINE, MARGIN = 980, 19, 24

COLOURS = (
    ("Act ", "#ffd866", "700"),
    ("The cast", "#ffd866", "700"),
    ("Curtain", "#ffd866", "700"),
    ("The story happened", "#7ee787", "700"),
    ("SIGKILL", "#ff7b72", "400"),
    ("refuses", "#79c0ff", "400"),
)


def colour(line: str) -> tuple[str, str]:
    """Fill colour and font weight of a line, by the words in it."""
    return next(((fill, weight) for word, fill, weight in COLOURS if word in line), ("#e6edf3", "400"))


def draw(text: str) -> str:
    """Draw the lines of `text` as an SVG."""
    lines = text.rstrip("\n").split("\n")
    height = 2 * MARGIN + 22 + LINE * len(lines)
    rows = []
    for number, line in enumerate(lines):
        fill, weight = colour(line)
        y = MARGIN + 34 + number * LINE
        rows.append(
            f'<text x="{MARGIN}" y="{y}" fill="{fill}" font-weight="{weight}" xml:space="preserve">'
            f"{html.escape(line)}</text>"
        )
    dots = "".join(
        f'<circle cx="{MARGIN + 18 * i}" cy="18" r="6" fill="{fill}"/>'
        for i, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    body = "\n".join(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="make demo">\n'
        f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>\n{dots}\n'
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14">\n'
        f"{body}\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    sys.stdout.write(draw(sys.stdin.read()))
