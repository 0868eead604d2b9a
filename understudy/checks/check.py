"""`InvariantCheck`, the base class of the invariants: a fold over a run that keeps the first violation it finds."""

from __future__ import annotations

from typing import ClassVar, NamedTuple, TypeAlias

from understudy.checks.facts import ClusterFacts
from understudy.checks.history import ZnodeTransaction
from understudy.foundation.eventlog.records import Envelope


class Violation(NamedTuple):
    """The first record or transaction of a run that contradicts an invariant."""

    check: str
    """The id of the check, for example `C4a`."""
    sentence: str
    """The invariant."""
    witness: str
    """What the run has instead."""
    where: str
    """`broker-1/1#42` (node, incarnation, sequence number), `zxid 17`, `the end`, or the file of an event log."""

    def __str__(self) -> str:
        return f"{self.check} violated at {self.where}: {self.witness}. It should hold that {self.sentence}"


class InvariantCheck:
    """Checks one invariant over one run.

    Transactions come in order of zxid, the records of a node in order of incarnation and `seq`, records of different
    nodes in no particular order. When a record arrives, `facts` holds all transactions up to the zxid that the record
    names, and usually later ones too: a check that compares a record with the znodes uses the record's own zxid.
    """

    id: ClassVar[str]
    sentence: ClassVar[str]
    """The invariant, as a clause that follows "it should hold that"."""
    reads: ClassVar[tuple[type, ...]] = ()
    """The record types that `on_record` is called with."""
    reads_transactions: ClassVar[bool] = False
    """Whether `on_transaction` is called."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.times_tested = 0
        """How often a record or transaction could have violated the invariant; 0 means that the run shows nothing."""
        self.violation: Violation | None = None

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        """Check one transaction, which `facts` already holds."""

    def on_record(self, record: Envelope) -> None:
        """Check one record of a type in `reads`."""

    def at_end(self) -> None:
        """Check what can only be known after the last record, such as a state that was never left."""

    def violated(self, where: Envelope | ZnodeTransaction | None, witness: str) -> None:
        """Keep a violation, unless there is an earlier one. A `where` of None stands for the end of the run."""
        if self.violation is None:
            self.violation = Violation(self.id, self.sentence, witness, _place(where))


Incarnation: TypeAlias = tuple[str, int]
"""(node, incarnation): one process of a node. A check keeps its state by incarnation, as memory ends with a process."""


def incarnation_of(record: Envelope) -> Incarnation:
    """Return the incarnation that wrote `record`."""
    return record.node, record.incarnation


def broker_of(record: Envelope) -> int:
    """Return the id of the broker that wrote `record`; −1 if a testbed or a client wrote it."""
    prefix, _, number = record.node.partition("-")
    return int(number) if prefix == "broker" and number.isdigit() else -1


def _place(where: Envelope | ZnodeTransaction | None) -> str:
    if where is None:
        return "the end"
    if isinstance(where, ZnodeTransaction):
        return f"zxid {where.zxid}"
    return f"{where.node}/{where.incarnation}#{where.seq}"
