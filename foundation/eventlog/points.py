"""Named points: where an experiment may pause or crash a node.

Points stand before and after every fenced write and every flush of a procedure (`partition.after_write`,
`failover.after_epoch` …). They cost one dictionary look-up unless an experiment has armed them, and turn races of
microseconds into scenes.
"""

from __future__ import annotations

from typing import Protocol


class Points(Protocol):
    async def reach(self, name: str) -> None:
        """Nothing, or what an experiment has armed `name` with: the node is paused or killed here."""


class UnarmedPoints:
    """The points of a node that nobody experiments with."""

    async def reach(self, name: str) -> None:
        return None
