"""Collections as they stand in the sentences Kafka's brokers send to clients: as Scala prints them."""

from __future__ import annotations

from collections.abc import Iterable

_SMALL = 4
"""Up to so many elements a set of Scala's is a class of its own."""


def scala_buffer(items: Iterable[object]) -> str:
    return f"ArrayBuffer({', '.join(map(str, items))})"


def scala_set(items: Iterable[object]) -> str:
    """Larger sets have an order of their own in Scala; here it is the one of `items`."""
    shown = tuple(map(str, items))
    return f"{'Set' if len(shown) <= _SMALL else 'HashSet'}({', '.join(shown)})"
