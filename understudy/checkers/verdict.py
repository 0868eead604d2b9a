"""All checks at once over a run: one pass over the transactions, one over the records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from foundation.eventlog.records import Envelope
from understudy.checkers import control_requests, controller, partition_state, topics, zookeeper
from understudy.checkers.check import InvariantCheck, Violation
from understudy.checkers.facts import ClusterFacts
from understudy.checkers.history import ZnodeTransaction


class Family(NamedTuple):
    """Checks that belong together."""

    name: str
    checks: tuple[type[InvariantCheck], ...]


FAMILIES = (
    Family("ZooKeeper", zookeeper.CHECKS),
    Family("controllers", controller.CHECKS),
    Family("control requests", control_requests.CHECKS),
    Family("partition states", partition_state.CHECKS),
    Family("topics", topics.CHECKS),
)

ALL_CHECKS: tuple[type[InvariantCheck], ...] = tuple(check for family in FAMILIES for check in family.checks)


class Judge:
    """Folds a run as it happens. Feed transactions in order, each node's records in order, then ask for the
    violations."""

    def __init__(self, checks: Iterable[type[InvariantCheck]] = ALL_CHECKS) -> None:
        self._facts = ClusterFacts()
        self._checks = tuple(check(self._facts) for check in checks)
        self._on_transaction = tuple(check for check in self._checks if check.reads_transactions)
        self._on_record: dict[type, list[InvariantCheck]] = {}
        for check in self._checks:
            for payload in check.reads:
                self._on_record.setdefault(payload, []).append(check)

    def transaction(self, transaction: ZnodeTransaction) -> None:
        self._facts.append(transaction)
        for check in self._on_transaction:
            check.on_transaction(transaction)

    def record(self, record: Envelope) -> None:
        for check in self._on_record.get(type(record.data), ()):
            check.on_record(record)

    @property
    def judged(self) -> dict[str, int]:
        """How often each check, by id, was really put to the test."""
        return {check.id: check.judged for check in self._checks}

    def violations(self) -> list[Violation]:
        """The first witness against each check that does not hold, after what they still had to say at the end."""
        for check in self._checks:
            check.at_end()
        return [check.violation for check in self._checks if check.violation is not None]

    def run(
        self, records_by_node: Mapping[str, Iterable[Envelope]], transactions: Iterable[ZnodeTransaction]
    ) -> list[Violation]:
        """The violations of a finished run.

        Args:
            records_by_node: each node's records, all incarnations, in order of (incarnation, seq).
            transactions: the whole znode history; empty where it was not kept, which leaves the checks that need it
                silent.
        """
        for transaction in transactions:
            self.transaction(transaction)
        for node in sorted(records_by_node):
            for record in records_by_node[node]:
                self.record(record)
        return self.violations()
