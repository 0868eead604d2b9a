"""Says whether records that are missing from a run could refute what a check has found in the others.

Two leaders of one epoch contradict an invariant whatever else is on record. "The replica never had the record" does
not, if a part of the replica's event log is missing. So each check names the records that could refute what it finds
(`RefutedBy`), the caller names the stretches in which records are missing (`MissingStretch`), and `MissingEvidence`
compares the two. Times are only compared within one incarnation: its records share a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Flag, auto
from typing import Final, NamedTuple

from understudy.checks.history import ZnodeTransaction
from understudy.foundation.eventlog.records import Envelope

_ROUNDING_MS: Final = 0.001
"""Maximum difference of a time that was rounded to microseconds."""


class RefutedBy(Flag):
    """The records that could refute a contradiction if they were there.

    `EARLIER` and `ALL` refer to the record that contradicts the invariant.
    """

    NOTHING = 0
    EARLIER_OF_INCARNATION = auto()
    """Earlier records of the same incarnation: the check follows a state that begins with the process."""
    ALL_OF_INCARNATION = auto()
    """Earlier and later records of the same incarnation: the check looks for the end of something."""
    EARLIER_OF_NODE = auto()
    """Earlier records of the same node: the check follows a state that outlives the process, such as a log."""
    BROKERS = auto()
    """Records of any broker: the check compares brokers, or excuses what follows from a loss of records."""
    ZNODES = auto()
    """Transactions of ZooKeeper."""


class MissingStretch(NamedTuple):
    """A stretch of a run in which records of a node are missing, or may be."""

    node: str = ""
    """The node; empty if it is not known which one."""
    incarnation: int = 0
    """The incarnation; 0 if it is not known which one, or if all are missing."""
    from_ms: float = -math.inf
    """No record of the incarnation is missing before this time, as in `Envelope.mono_ms`; −∞ if that is not known."""
    is_certain: bool = True
    """Whether there is evidence that records are missing; else only none that the log is whole."""

    def __str__(self) -> str:
        incarnation = f" incarnation {self.incarnation}" if self.incarnation else ""
        are = "are" if self.is_certain else "may be"
        return f"records of {self.node or 'an unknown node'}{incarnation} {are} missing"

    def may_precede(self, record: Envelope, *, in_incarnation: bool) -> bool:
        """Return whether records of `record`'s node may be missing before it.

        Args:
            in_incarnation: whether only records of the same incarnation count.
        """
        if self.node not in ("", record.node):
            return False
        if not self.node or not self.incarnation:
            return True
        if self.incarnation != record.incarnation:
            return not in_incarnation and self.incarnation < record.incarnation
        return self.from_ms <= record.mono_ms + _ROUNDING_MS

    def may_be_of(self, record: Envelope) -> bool:
        """Return whether records of `record`'s incarnation may be missing, before or after it."""
        return self.node in ("", record.node) and self.incarnation in (0, record.incarnation)

    @property
    def may_be_of_broker(self) -> bool:
        return not self.node or self.node.startswith("broker-")


class MissingEvidence:
    """The records and transactions that are missing from a run.

    Args:
        stretches: the stretches in which records are missing. More may be added while the run is read, each before
            the records that follow it.
        has_znodes: whether the checks get the history of the znodes.
    """

    def __init__(self, stretches: Iterable[MissingStretch] = (), *, has_znodes: bool = True) -> None:
        self.stretches = list(stretches)
        self.has_znodes = has_znodes

    def refuting(self, refuted_by: RefutedBy, found: Envelope | ZnodeTransaction | None) -> str:
        """Return which missing records could refute a contradiction, as a clause; empty if none could.

        Args:
            found: the record or transaction that contradicts the invariant; None for the whole run.
        """
        if RefutedBy.ZNODES in refuted_by and not self.has_znodes:
            return "there is no history of the znodes"
        return next((str(stretch) for stretch in self.stretches if _may_refute(stretch, refuted_by, found)), "")


def _may_refute(stretch: MissingStretch, refuted_by: RefutedBy, found: Envelope | ZnodeTransaction | None) -> bool:
    if RefutedBy.BROKERS in refuted_by and stretch.may_be_of_broker:
        return True
    if not isinstance(found, Envelope):
        return False
    if RefutedBy.ALL_OF_INCARNATION in refuted_by and stretch.may_be_of(found):
        return True
    if RefutedBy.EARLIER_OF_INCARNATION in refuted_by and stretch.may_precede(found, in_incarnation=True):
        return True
    return RefutedBy.EARLIER_OF_NODE in refuted_by and stretch.may_precede(found, in_incarnation=False)


NOTHING_MISSING: Final = MissingEvidence()
"""The evidence of a complete run; nothing may be added to it."""
