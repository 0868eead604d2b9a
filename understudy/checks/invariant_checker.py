"""`InvariantChecker` runs all checks over one run: one pass over its transactions, one over its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from understudy.checks import (
    control_requests,
    controller,
    leader_agreement,
    liveness,
    partition_state,
    producers,
    quorum,
    replication,
    topics,
    zookeeper,
)
from understudy.checks.check import InvariantCheck, Unjudged, Violation
from understudy.checks.facts import ClusterFacts
from understudy.checks.history import ZnodeTransaction
from understudy.checks.log_checks import LogCheck, LogFollower
from understudy.checks.missing import NOTHING_MISSING, MissingEvidence
from understudy.foundation.eventlog.records import Envelope


class CheckGroup(NamedTuple):
    """Checks of one subject, which `understudy check` shows in one line."""

    name: str
    checks: tuple[type[InvariantCheck], ...]


CHECK_GROUPS = (
    CheckGroup("ZooKeeper", zookeeper.CHECKS),
    CheckGroup("controllers", (*controller.CHECKS, *liveness.CHECKS)),
    CheckGroup("control requests", control_requests.CHECKS),
    CheckGroup("partition states", partition_state.CHECKS),
    CheckGroup("topics", topics.CHECKS),
    CheckGroup("KRaft quorum", quorum.CHECKS),
    CheckGroup("logs", (*replication.CHECKS, *leader_agreement.CHECKS, *producers.CHECKS)),
)

ALL_CHECKS: tuple[type[InvariantCheck], ...] = tuple(check for group in CHECK_GROUPS for check in group.checks)


class InvariantChecker:
    """Checks one run: `run` checks a finished one; `transaction` and `record`, then `violations`, one in progress.

    Transactions come in order of zxid, each node's records in order of incarnation and `seq`.

    Args:
        missing: the records that are missing from the run.
    """

    def __init__(
        self, checks: Iterable[type[InvariantCheck]] = ALL_CHECKS, missing: MissingEvidence = NOTHING_MISSING
    ) -> None:
        self._facts = ClusterFacts()
        self._checks = tuple(check(self._facts) for check in checks)
        for each in self._checks:
            each.missing = missing
        self._on_transaction = tuple(check for check in self._checks if check.reads_transactions)
        self._on_record: dict[type, list[Callable[[Envelope], None]]] = {}
        readers = [(check.reads, check.on_record) for check in self._checks if not isinstance(check, LogCheck)]
        if log_checks := [check for check in self._checks if isinstance(check, LogCheck)]:
            logs = LogFollower(self._facts, log_checks)
            readers.append((logs.reads, logs.on_record))
        for payloads, on_record in readers:
            for payload in payloads:
                self._on_record.setdefault(payload, []).append(on_record)

    def transaction(self, transaction: ZnodeTransaction) -> None:
        """Check the next transaction."""
        self._facts.append(transaction)
        for check in self._on_transaction:
            check.on_transaction(transaction)

    def record(self, record: Envelope) -> None:
        """Check the next record of a node. All transactions up to the zxid it names must have been checked before."""
        for on_record in self._on_record.get(type(record.data), ()):
            on_record(record)

    @property
    def times_tested(self) -> dict[str, int]:
        """How often each invariant could have been violated, by the id of its check."""
        return {check.id: check.times_tested for check in self._checks}

    @property
    def found(self) -> list[Violation]:
        """The first violation of each invariant that needs no look at the end of the run."""
        return [check.violation for check in self._checks if check.violation is not None]

    @property
    def unjudged(self) -> list[Unjudged]:
        """The first contradiction of each invariant that cannot be judged, if no other one violates the invariant."""
        return [check.unjudged for check in self._checks if check.unjudged is not None and check.violation is None]

    def violations(self) -> list[Violation]:
        """Let the checks look at the end of the run, and return the first violation of each invariant."""
        for check in self._checks:
            check.at_end()
        return self.found

    def run(
        self, records_by_node: Mapping[str, Iterable[Envelope]], transactions: Iterable[ZnodeTransaction]
    ) -> list[Violation]:
        """Check a finished run, and return the first violation of each invariant.

        Args:
            records_by_node: each node's records, all incarnations, in order of (incarnation, seq).
            transactions: the whole history of the znodes; empty if it was not kept. Then the checks that need it
                test nothing.
        """
        for transaction in transactions:
            self.transaction(transaction)
        for node in sorted(records_by_node):
            for record in records_by_node[node]:
                self.record(record)
        return self.violations()
