"""Finds out which records of a run are missing, from the records that are there.

A log whose process was killed ends without notice, and is complete. So records are missing only if other records are
evidence of them: a later incarnation or the testbed has seen more of a log, a node received what this node sent, or
other nodes name a node that has no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from understudy.history.reading.run_records import RunRecords

TESTBED: Final = "testbed"

NO_LOG: Final = "no log"
"""The node has no record at all."""
NO_INCARNATION: Final = "no incarnation"
"""The node has records of other incarnations, and none of this one."""
NO_END: Final = "no end"
"""The end of the incarnation's log is missing."""
NO_RECORDS: Final = "no records"
"""Sequence numbers of the incarnation are missing before its last record."""
NO_ELECTION: Final = "no election"
"""The run has a controller epoch that no node was elected for: the new controller's log is missing, whoever it was."""


class MissingRecords(NamedTuple):
    """A stretch of a run in which records of a node are missing; sorts by time.

    Times are microseconds after the run's first record. The stretch begins after `from_us` and ends before `until_us`,
    if these are records of the node.
    """

    from_us: int
    """0 if they may be missing from the beginning."""
    until_us: int
    """The time of the run's last record if they may be missing up to the end."""
    node: str
    """The node; empty if it cannot be said which node it was."""
    incarnation: int
    """The incarnation; 0 if it cannot be said which one, or all of them are missing."""
    kind: str
    """One of the constants of this module, for example `NO_END`."""
    evidence: str
    """The evidence, as a sentence without a full stop, for example `broker-3 started as incarnation 6, so there was an
    incarnation 5`."""
    witness: str
    """The record that is the evidence, for example `broker-1/3#42`: node, incarnation, sequence number."""

    def __str__(self) -> str:
        node = self.node or "the controller of another epoch"
        which = f" incarnation {self.incarnation}" if self.incarnation else ""
        stretch = f"from {self.from_us / 1e6:,.3f} s to {self.until_us / 1e6:,.3f} s"
        return f"records missing: {node}{which}, {stretch}: {self.evidence} ({self.witness})"


def find_missing(run: RunRecords) -> tuple[MissingRecords, ...]:
    """Return the stretches of a run in which records are missing, sorted by time; none if the run is complete."""
    return ()
