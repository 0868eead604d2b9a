"""`RunningChecks`: judges a run of many hours while it lasts, with bounded memory.

The checks of logs keep every batch. They run in windows: a new one begins every `WINDOW_MS`, and each lasts twice as
long, so that one window sees the whole of any events within `WINDOW_MS`. A window does not judge a log whose beginning
it has not seen, for example if the records of logs were switched on later. All other checks run from the first record
of the run to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from understudy.checks import leader_agreement, producers, replication
from understudy.checks.check import Violation
from understudy.checks.history import ZnodeTransaction
from understudy.checks.invariant_checker import ALL_CHECKS, InvariantChecker
from understudy.checks.missing import MissingEvidence, MissingStretch
from understudy.foundation.eventlog.records import Envelope, TaskFailed
from understudy.history.reading.sequences import RecordSequence

WINDOW_MS: Final = 600_000.0

LOG_CHECKS: Final = (*replication.CHECKS, *leader_agreement.CHECKS, *producers.CHECKS)
OTHER_CHECKS: Final = tuple(check for check in ALL_CHECKS if check not in LOG_CHECKS)
OTHER_TYPES: Final = frozenset(payload for check in OTHER_CHECKS for payload in check.reads) | {TaskFailed}
"""The record types that are read from the beginning of the run."""

_NO_FAILURE: Final = "no task of a broker fails, and no broker ends by itself"


class _Window(NamedTuple):
    begins_ms: float
    checker: InvariantChecker
    known_zxid: int
    """The last transaction before its beginning, which its checker has."""


class RunningChecks:
    """All checks over a run in progress.

    Args:
        history: returns all transactions up to a time, for a window that begins.
        from_ms: the time at which the checks of logs begin; only the other checks get earlier records.
        has_znodes: whether `history` has transactions.
    """

    def __init__(
        self,
        history: Callable[[float], Iterable[ZnodeTransaction]],
        from_ms: float,
        *,
        has_znodes: bool = True,
    ) -> None:
        self._history = history
        self._missing = MissingEvidence(has_znodes=has_znodes)
        self._first_missing = ""
        """The first evidence that records are missing, as a sentence without a full stop."""
        self._others = InvariantChecker(OTHER_CHECKS, self._missing)
        self._windows: list[_Window] = []
        self._from_ms = from_ms
        self._sequences: dict[str, tuple[int, RecordSequence]] = {}
        """The newest incarnation of each node, and its sequence."""
        self._found: list[Violation] = []
        self.records = 0
        self.transactions = 0

    def advance(self, transactions: Iterable[ZnodeTransaction], records: Iterable[Envelope], until_ms: float) -> None:
        """Give the checks the new transactions and records up to a time; each node's records are in their order."""
        if not self._windows:
            self._begin_window(self._from_ms)
        for transaction in transactions:
            self.transactions += 1
            self._others.transaction(transaction)
            for window in self._windows:
                if transaction.zxid > window.known_zxid:
                    window.checker.transaction(transaction)
        for record in records:
            self.records += 1
            if isinstance(record.data, TaskFailed):
                failed = f"{record.node}: the task {record.data.task} failed: {record.data.error}"
                where = f"{record.node}/{record.incarnation}#{record.seq}"
                self._found.append(Violation("no-failure", _NO_FAILURE, failed, where))
            self._others.record(record)
            if record.wall_ms >= self._from_ms:
                for window in self._windows:
                    window.checker.record(record)
        self._renew(until_ms)

    def sequence(self, node: str, incarnation: int, seq: int, file: str) -> None:
        """Find out by the number of the next line whether lines before it are missing, also of one not judged."""
        known, sequence = self._sequences.get(node, (0, RecordSequence()))
        if known != incarnation:
            sequence = RecordSequence()
            self._sequences[node] = incarnation, sequence
        last = sequence.seq
        if sequence.flaws(seq, 0.0):
            what = f"{node} incarnation {incarnation} has record {seq} after {last} ({file})"
            self._add_missing(node, incarnation, what)

    def malformed(self, node: str, incarnation: int, file: str, line: bytes) -> None:
        """Note a whole line of an incarnation that is no record."""
        self._add_missing(node, incarnation, f"{line[:80]!r} is no record ({file})")

    def unjudged(self) -> str:
        """Return why the run cannot be judged; empty if no record is missing, and none could refute what was found."""
        if self._first_missing:
            return f"records are missing: {self._first_missing}"
        found = [each for checker in self._checkers() for each in checker.unjudged]
        return str(found[0]) if found else ""

    def _add_missing(self, node: str, incarnation: int, what: str) -> None:
        self._missing.stretches.append(MissingStretch(node, incarnation))
        self._first_missing = self._first_missing or what

    def _checkers(self) -> list[InvariantChecker]:
        return [self._others, *(window.checker for window in self._windows)]

    def violations(self, *, with_end: bool) -> list[Violation]:
        """Return the first violation of each invariant by the records so far.

        Args:
            with_end: whether to also judge what only the end of the known records can show.
        """
        judged = [
            each for checker in self._checkers() for each in (checker.violations() if with_end else checker.found)
        ]
        return list({violation.check: violation for violation in reversed([*self._found, *judged])}.values())

    def _renew(self, until_ms: float) -> None:
        """Begin the window that is due, and end those that have lasted two windows."""
        if until_ms >= self._windows[-1].begins_ms + WINDOW_MS:
            self._windows = [each for each in self._windows if each.begins_ms > until_ms - 2 * WINDOW_MS]
            self._begin_window(until_ms)

    def _begin_window(self, begins_ms: float) -> None:
        checker, zxid = InvariantChecker(LOG_CHECKS, self._missing), 0
        for transaction in self._history(begins_ms):
            checker.transaction(transaction)
            zxid = transaction.zxid
        self._windows.append(_Window(begins_ms, checker, zxid))
