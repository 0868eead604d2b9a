"""What a check is: an id, a sentence, what it reads, and a fold that keeps the first witness against the sentence."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from foundation.eventlog.records import Envelope
from understudy.checkers.facts import ClusterFacts
from understudy.checkers.history import ZnodeTransaction


class Violation(NamedTuple):
    check: str
    """The check's id, for example `C4a`."""
    sentence: str
    """What should have held."""
    witness: str
    """What was seen instead."""
    where: str
    """`broker-1/1#42` (node, incarnation, sequence number), `zxid 17`, or `the end`."""

    def __str__(self) -> str:
        return f"{self.check} violated at {self.where}: {self.witness}. It should hold that {self.sentence}"


class InvariantCheck:
    """One invariant. Transactions come in order of zxid; the records of a node in order of incarnation and `seq`.

    All transactions up to the zxid that a record names have been seen when the record arrives, and usually later ones
    too: a check that compares a record with the znodes asks the facts about the record's own zxid. Records of different
    nodes come in no particular order.
    """

    id: ClassVar[str]
    sentence: ClassVar[str]
    reads: ClassVar[tuple[type, ...]] = ()
    """The record types it is called with."""
    reads_transactions: ClassVar[bool] = False

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.judged = 0
        """How often the sentence was really put to the test. A check that never was has shown nothing by being
        silent."""
        self.violation: Violation | None = None

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        """After `transaction` has entered the facts."""

    def on_record(self, record: Envelope) -> None: ...

    def at_end(self) -> None:
        """After the last record: what was still owed."""

    def violated(self, where: Envelope | ZnodeTransaction | None, witness: str) -> None:
        """Keep `witness` unless there is an earlier one."""
        if self.violation is None:
            self.violation = Violation(self.id, self.sentence, witness, _place(where))


Incarnation = tuple[str, int]
"""(node, incarnation): what a process forgets when it dies, and a check with it."""


def incarnation_of(record: Envelope) -> Incarnation:
    return record.node, record.incarnation


def broker_of(record: Envelope) -> int:
    """The broker that wrote it; −1 for a testbed or client."""
    prefix, _, number = record.node.partition("-")
    return int(number) if prefix == "broker" and number.isdigit() else -1


def _place(where: Envelope | ZnodeTransaction | None) -> str:
    if where is None:
        return "the end"
    if isinstance(where, ZnodeTransaction):
        return f"zxid {where.zxid}"
    return f"{where.node}/{where.incarnation}#{where.seq}"
