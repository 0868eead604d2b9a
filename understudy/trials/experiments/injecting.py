"""`Undo` and `CannotInject`: what an action of a step returns, and what it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Undo: TypeAlias = Callable[[], None]
"""Ends an action."""


class CannotInject(Exception):
    """An engine cannot do what a step asks, or the broker is not in the state for it. The message says why."""
