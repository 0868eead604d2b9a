"""Actions of steps that do the same to each broker on its own; for the tables of all engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from understudy.experiments.engine import Undo

E = TypeVar("E")
B = TypeVar("B")


def on_each(
    act: Callable[[B], object], undo: Callable[[B], object] | None = None
) -> Callable[[E, Sequence[B], Any, Mapping[str, Any]], Undo | None]:
    """Return the action that does `act` to each broker, and whose end does `undo` to each."""

    def perform(engine: E, brokers: Sequence[B], value: Any, options: Mapping[str, Any]) -> Undo | None:
        to_all(act, brokers)
        return None if undo is None else lambda: to_all(undo, brokers)

    return perform


def to_all(act: Callable[[B], object], brokers: Sequence[B]) -> None:
    """Do `act` to each broker, in order."""
    for broker in brokers:
        act(broker)
