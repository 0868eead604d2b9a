"""Captures log lines in tests, with their logger, level and fields."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, MutableMapping
from typing import NamedTuple

import structlog


class Line(NamedTuple):
    logger: str
    level: str
    text: str
    fields: dict[str, object]


class _Named(structlog.PrintLogger):
    def __init__(self, *names: str) -> None:
        super().__init__()
        self.name = names[0] if names else ""


@contextlib.contextmanager
def operators_log(level: int = logging.INFO) -> Iterator[list[Line]]:
    """Collect the lines that are logged inside the `with` block at `level` or above, instead of printing them."""
    lines: list[Line] = []

    def keep(logger: _Named, method: str, fields: MutableMapping[str, object]) -> MutableMapping[str, object]:
        lines.append(Line(logger.name, method, str(fields.pop("event")), dict(fields)))
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
