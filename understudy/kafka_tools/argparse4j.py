"""The errors of argparse4j, with which some of Kafka's tools parse their command lines; the others use joptsimple."""

from __future__ import annotations

import re
from collections.abc import Sequence

ARGPARSE = "net.sourceforge.argparse4j.inf.ArgumentParserException"
"""The class of errors after which the usage is printed."""
WIDTH = 75


def wrapped(text: str) -> str:
    """Return a message as argparse4j breaks it: at blanks and after hyphens, with lines filled up by more blanks."""
    lines: list[list[str]] = [[]]
    # argparse4j breaks the message with the newline at its end, which counts.
    for part in re.findall(r"(?:\S+?-+(?=[^\W\d_])|\S+)\s*", text + "\n"):
        if len("".join((*lines[-1], part))) > WIDTH and lines[-1]:
            lines.append([])
        lines[-1].append(part)
    return "\n".join([*(_filled(line) for line in lines[:-1]), "".join(lines[-1]).rstrip()])


def _filled(parts: Sequence[str]) -> str:
    """Return a line with blanks added to the gaps in its middle, until it has the maximum width."""
    *before, last = parts
    last = last.rstrip()
    gaps = [place for place, part in enumerate(before) if part.endswith(" ")]
    missing = WIDTH - len("".join(before)) - len(last)
    if not gaps:
        return "".join(before) + last
    each, more = divmod(missing, len(gaps))
    first = (len(gaps) - more + 1) // 2
    filled = list(before)
    for number, place in enumerate(gaps):
        filled[place] += " " * (each + (first <= number < first + more))
    return "".join(filled) + last
