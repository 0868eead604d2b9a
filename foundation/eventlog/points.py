"""Named points, at which an experiment may pause or crash a node.

They are before and after every fenced write and every flush of a procedure (`partition.after_write`,
`failover.after_epoch` …), so that an experiment can stop a node inside a race of microseconds. A point that is not
armed costs one dictionary look-up.
"""

from __future__ import annotations

from typing import Protocol


class Points(Protocol):
    """Carries out what an experiment has armed."""

    async def reach(self, name: str) -> None:
        """Pause or kill the node if an experiment has armed the point `name`; otherwise do nothing."""


class UnarmedPoints:
    """The points of a node without experiments: none does anything."""

    async def reach(self, name: str) -> None:
        return None
