"""The base classes of the invariants: `InvariantCheck` folds a run, `HistoryCheck` looks at what clients have seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from understudy.checks.facts import ClusterFacts
from understudy.checks.history import ZnodeTransaction
from understudy.checks.missing import NOTHING_MISSING, MissingEvidence, RefutedBy
from understudy.foundation.eventlog.records import Envelope

H = TypeVar("H")
"""A history: what clients, or the members of groups, have seen of a cluster."""


class Violation(NamedTuple):
    """The first record or transaction of a run that contradicts an invariant."""

    check: str
    """The id of the check, for example `C4a`."""
    sentence: str
    """The invariant."""
    witness: str
    """What the run has instead."""
    where: str
    """`broker-1/1#42` (node, incarnation, sequence number), `zxid 17`, `the end`, the file of an event log, or
    what a `Witness` names."""

    def __str__(self) -> str:
        return f"{self.check} violated at {self.where}: {self.witness}. It should hold that {self.sentence}"


class Unjudged(NamedTuple):
    """What contradicts an invariant in the records that are there, but could be refuted by records that are missing."""

    found: Violation
    """The contradiction, as it would be without them."""
    why: str
    """Which records are missing, as a clause."""

    @property
    def check(self) -> str:
        return self.found.check

    def __str__(self) -> str:
        check, sentence, witness, place = self.found
        return f"{check} cannot be judged at {place}, because {self.why}: {witness}. It should hold that {sentence}"


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
    refuted_by: ClassVar[RefutedBy]
    """The records that could refute a contradiction, unless `violated` is called with others. Every check declares
    it."""

    missing: MissingEvidence = NOTHING_MISSING
    """The records that are missing from the run. The `InvariantChecker` sets it before the first record."""

    def __init__(self, facts: ClusterFacts) -> None:
        self.facts = facts
        self.times_tested = 0
        """How often a record or transaction could have violated the invariant; 0 means that the run shows nothing."""
        self.violation: Violation | None = None
        self.unjudged: Unjudged | None = None
        """The first contradiction that missing records could refute."""

    def on_transaction(self, transaction: ZnodeTransaction) -> None:
        """Check one transaction, which `facts` already holds."""

    def on_record(self, record: Envelope) -> None:
        """Check one record of a type in `reads`."""

    def at_end(self) -> None:
        """Check what can only be known after the last record, such as a state that was never left."""

    def violated(
        self, where: Envelope | ZnodeTransaction | None, witness: str, *, refuted_by: RefutedBy | None = None
    ) -> None:
        """Keep a contradiction, unless there is an earlier one: as a violation, or as one that cannot be judged.

        Args:
            where: what contradicts the invariant; None stands for the end of the run.
            refuted_by: the records that could refute it, if these are not the check's `refuted_by`.
        """
        found = Violation(self.id, self.sentence, witness, _place(where))
        if why := self.missing.refuting(self.refuted_by if refuted_by is None else refuted_by, where):
            self.unjudged = self.unjudged or Unjudged(found, why)
        else:
            self.violation = self.violation or found


class Witness(NamedTuple):
    """What in a history contradicts an invariant, and where: for example `send 12` or `poll 3`, counted from 0."""

    where: str
    what: str


class HistoryCheck(Generic[H]):
    """Checks one invariant over a whole history."""

    id: ClassVar[str]
    sentence: ClassVar[str]
    """The invariant, as a clause that follows "it should hold that"."""
    refuted_by: ClassVar[RefutedBy]
    """The records of brokers that could refute a contradiction: those from which the history has an excuse. Every check
    declares it."""

    def __init__(self) -> None:
        self.times_tested = 0
        """How often the history could have violated the invariant; 0 means that it shows nothing."""

    def contradictions(self, history: H) -> Iterator[Witness]:
        """Yield what contradicts the invariant, in the order of the history."""
        raise NotImplementedError


class Judgement(NamedTuple):
    """What checks have found in a history.

    Attributes:
        violations: the first violation of each invariant.
        unjudged: the first contradiction of each invariant that cannot be judged.
        times_tested: by the id of each check.
    """

    violations: list[Violation]
    unjudged: list[Unjudged]
    times_tested: dict[str, int]


def judge(checks: Iterable[type[HistoryCheck[H]]], history: H, missing: MissingEvidence = NOTHING_MISSING) -> Judgement:
    """Check a history.

    Args:
        missing: the records of brokers that are missing from the run.
    """
    judgement = Judgement([], [], {})
    for check in (kind() for kind in checks):
        if found := list(check.contradictions(history)):
            violation = Violation(check.id, check.sentence, found[0].what, found[0].where)
            if why := missing.refuting(check.refuted_by, None):
                judgement.unjudged.append(Unjudged(violation, why))
            else:
                judgement.violations.append(violation)
        judgement.times_tested[check.id] = check.times_tested
    return judgement


Incarnation: TypeAlias = tuple[str, int]
"""(node, incarnation): one process of a node. A check keeps its state by incarnation, as memory ends with a process."""


def incarnation_of(record: Envelope) -> Incarnation:
    """Return the incarnation that wrote `record`."""
    return record.node, record.incarnation


def broker_of(record: Envelope) -> int:
    """Return the id of the broker that wrote `record`; −1 if a testbed or a client wrote it."""
    prefix, _, number = record.node.partition("-")
    return int(number) if prefix == "broker" and number.isdigit() else -1


def _place(contradicting: Envelope | ZnodeTransaction | None) -> str:
    if contradicting is None:
        return "the end"
    if isinstance(contradicting, ZnodeTransaction):
        return f"zxid {contradicting.zxid}"
    return f"{contradicting.node}/{contradicting.incarnation}#{contradicting.seq}"
