"""`short_names` leaves out of run names what all of them have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_PART: Final = re.compile(r"[^-_./]*[-_./]?")


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return a name for each name without the parts at the beginning and the end that all of them share.

    Parts are separated by `-`, `_`, `.` or `/`: `b3-t3000-kill-7` and `b3-t3000-kill-12` become `7` and `12`. A single
    name keeps its last part.
    """
    parts = {name: _PART.findall(name)[:-1] or [name] for name in names}
    if not parts:
        return {}
    shortest = min(map(len, parts.values())) - 1
    begin = min(_shared(list(parts.values())), shortest)
    end = min(_shared([each[::-1] for each in parts.values()]), shortest - begin)
    short = {name: "".join(each[begin : len(each) - end]).rstrip("-_./") for name, each in parts.items()}
    return short if len(set(short.values())) == len(short) else {name: name for name in parts}


def _shared(names: Sequence[Sequence[str]]) -> int:
    """Return with how many parts all names begin."""
    return next((place for place, same in enumerate(zip(*names, strict=False)) if len(set(same)) > 1), len(names[0]))
