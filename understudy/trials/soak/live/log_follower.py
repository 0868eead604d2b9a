"""`SoakLogFollower`: gives the event logs and the znodes' history of a running cluster to the checks, as they grow.

Everything is read up to one time, `HELD_BACK_MS` before now. All processes are on one machine, so that the causes of a
record of that time are also on disk, in whichever file. Otherwise a check could see an effect before its cause. Records
are compared by the monotonic clock; ZooKeeper's transactions have only the wall clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from understudy.checks.history import ZnodeTransaction
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, ControllerElected, Envelope, LeadershipWritten
from understudy.history.reading.following import FolderTail, RunTail
from understudy.history.reading.lines import decode_header, with_payload
from understudy.history.reading.transaction_log import TransactionLogTail, is_whole
from understudy.trials.soak.loop import Events
from understudy.trials.soak.running_checks import OTHER_TYPES, WINDOW_MS, RunningChecks

HELD_BACK_MS: Final = 2_000.0

_ELECTIONS: Final = frozenset({"offline", "unclean", "preferred", "reassignment", "controlled-shutdown"})
"""Reasons for which a controller writes a partition state with another leader."""
_EARLY_TYPES: Final = frozenset(name for name, payload in PAYLOAD_BY_TYPE.items() if payload in OTHER_TYPES)


class SoakLogFollower:
    """Follows one run folder.

    Args:
        transaction_logs: the folder of the transaction log of each server of ZooKeeper; empty if the run has not
            started ZooKeeper.
        from_ms: events before this time are not counted. Checks of logs begin one window earlier.
    """

    def __init__(self, folder: Path, transaction_logs: Sequence[Path], from_ms: float) -> None:
        self._logs = RunTail(folder)
        self._transaction_logs = transaction_logs
        self.has_history = bool(transaction_logs) and is_whole(*transaction_logs)
        """Whether the znodes' history can be read from its beginning."""
        self._tail = TransactionLogTail(*transaction_logs) if self.has_history else None
        self._from_ms = from_ms
        self._logs_from_ms = from_ms - WINDOW_MS
        self.checks = RunningChecks(self._history, self._logs_from_ms, has_znodes=self.has_history)
        self.checked_ms = 0.0
        self._controller_changes = 0
        self._leader_elections = 0

    @property
    def size(self) -> int:
        """The size of the event logs in bytes."""
        return self._logs.size

    def advance(self, now_ms: float, mono_ms: float) -> Events:
        """Read the new records, and return the numbers of events since the last call.

        Args:
            now_ms: milliseconds since 1970.
            mono_ms: the machine's monotonic clock.

        Raises:
            MalformedTransactionLog: the znodes' history is damaged.
            OSError: a file cannot be read.
        """
        until_ms = now_ms - HELD_BACK_MS
        self._controller_changes = self._leader_elections = 0
        transactions = self._tail.new_transactions(until_ms) if self._tail is not None else ()
        self.checks.advance(transactions, self._records(mono_ms), until_ms)
        self.checked_ms = until_ms
        return Events(self._controller_changes, self._leader_elections)

    def _records(self, mono_ms: float) -> Iterator[Envelope]:
        for node in self._logs.nodes():
            for record in self._records_of(node, mono_ms):
                self._count(record)
                yield record

    def _count(self, record: Envelope) -> None:
        if record.wall_ms < self._from_ms:
            return
        if isinstance(record.data, ControllerElected):
            self._controller_changes += 1
        elif isinstance(record.data, LeadershipWritten) and record.data.why in _ELECTIONS:
            self._leader_elections += len(record.data.partitions)

    def _history(self, until_ms: float) -> Iterator[ZnodeTransaction]:
        if self.has_history:
            yield from TransactionLogTail(*self._transaction_logs).new_transactions(until_ms)

    def _records_of(self, node: FolderTail, mono_ms: float) -> Iterator[Envelope]:
        """Yield the records of one node up to `HELD_BACK_MS` before a time of the monotonic clock, each once.

        A record with a later time than the clock's belongs to an earlier boot of the machine.
        """
        for file, line in node.lines():
            try:
                header = decode_header(line)
                if mono_ms - HELD_BACK_MS < header.mono_ms <= mono_ms:
                    return
                self.checks.sequence(header.node, header.incarnation, header.seq, str(file.path))
                is_early = header.wall_ms < self._logs_from_ms
                if header.type in (_EARLY_TYPES if is_early else PAYLOAD_BY_TYPE):
                    yield with_payload(header)
            except msgspec.MsgspecError:
                self.checks.malformed(file.node, file.incarnation, str(file.path), line)
