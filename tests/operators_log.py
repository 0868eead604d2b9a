"""Captures operators' log lines for tests, and holds their fields against docs/reference/logs.md."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import NamedTuple

import structlog

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "logs.md"

_ROW = re.compile(r"\| (`\w+`(?:, `\w+`)*) \| ([\w ]+) \|")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "list": (list, tuple),
    "object": (dict, Mapping),
    "null": (type(None),),
    "exception": (BaseException,),
}


def _documented() -> dict[str, tuple[type, ...]]:
    """The types of each field, from the table of the page."""
    return {
        name: tuple(kind for word in types.split(" or ") for kind in _TYPES[word])
        for names, types in _ROW.findall(PAGE.read_text(encoding="utf-8"))
        for name in re.findall(r"\w+", names)
    }


def _is_of(value: object, types: tuple[type, ...]) -> bool:
    """Whether a value is of one of a field's types. Python's booleans are integers too; here they are not."""
    return bool in types if isinstance(value, bool) else isinstance(value, types)


FIELDS = _documented()


class Line(NamedTuple):
    logger: str
    level: str
    text: str
    fields: dict[str, object]


class _Named(structlog.PrintLogger):
    def __init__(self, *names: str) -> None:
        super().__init__()
        self.name = names[0] if names else ""


def undocumented(fields: Mapping[str, object]) -> list[str]:
    """The fields of a line that docs/reference/logs.md does not list, or lists with another type."""
    return [
        f"{name}={value!r} ({type(value).__name__})"
        for name, value in fields.items()
        if not _is_of(value, FIELDS.get(name, ()))
    ]


@contextlib.contextmanager
def operators_log(level: int = logging.INFO) -> Iterator[list[Line]]:
    """Capture the lines written from now on, at `level` or above; nothing reaches the terminal.

    Raises:
        AssertionError: a line has a field that docs/reference/logs.md does not list, or lists with another type.
    """
    lines: list[Line] = []
    wrong: list[str] = []

    def keep(logger: _Named, method: str, fields: MutableMapping[str, object]) -> MutableMapping[str, object]:
        text = str(fields.pop("event"))
        wrong.extend(f"{text}: {field}" for field in undocumented(fields))
        lines.append(Line(logger.name, method, text, dict(fields)))
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, keep],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Named,
        cache_logger_on_first_use=False,
    )
    try:
        yield lines
    finally:
        structlog.configure(**before)
    assert wrong == [], "fields as docs/reference/logs.md does not know them"
