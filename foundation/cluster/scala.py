"""Prints collections as Scala does, for error messages that Kafka's brokers send to clients."""

from __future__ import annotations

from collections.abc import Iterable

_SMALL = 4
"""Maximum size of sets that have a class of their own in Scala, which prints `Set`; larger ones print `HashSet`."""


def scala_buffer(items: Iterable[object]) -> str:
    return f"ArrayBuffer({', '.join(map(str, items))})"


def scala_set(items: Iterable[object]) -> str:
    """Print a set in the order of `items`; Scala orders the elements of larger sets by their hash."""
    shown = tuple(map(str, items))
    return f"{'Set' if len(shown) <= _SMALL else 'HashSet'}({', '.join(shown)})"
