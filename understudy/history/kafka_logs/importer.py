"""`import_logs` reads the logs of all brokers and of ZooKeeper in one order of time, and writes event logs.

A log line has its broker's time, a transaction has ZooKeeper's. A first pass gathers what bounds their clocks to each
other; the second one reads all logs in the order of the aligned times.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import LostStretch, RunDescribed
from understudy.history.kafka_logs import broker_lines, controller_lines
from understudy.history.kafka_logs.clock_alignment import aligned_clocks
from understudy.history.kafka_logs.clock_offsets import (
    ONE_MACHINE,
    ImportedClocks,
    clock_of_broker,
    clock_of_transaction,
)
from understudy.history.kafka_logs.clock_pairs import ClockPairs
from understudy.history.kafka_logs.cluster_state import ImportedCluster
from understudy.history.kafka_logs.entries import Entry, FoundLogs, LogSource, log_sources
from understudy.history.kafka_logs.lost_lines import lost_stretches
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.statements import IDENT, Line, Statement
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.kafka_logs.transactions import DatedTransaction, Logged, TransactionImporter, dated
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.reading.missing import MissingRecords
from understudy.history.reading.transaction_log import MalformedTransactionLog, first_zxid, iterate_transaction_logs
from understudy.history.writing import counted

MAX_SAMPLES: Final = 3
"""Maximum number of lines of each class that are kept as samples."""
MAX_SAMPLE_CHARACTERS: Final = 200

_OF_KRAFT: Final = "org.apache.kafka.controller.QuorumController"
"""Class that only nodes of a KRaft cluster have."""

_STATEMENTS: Final = grouped((one.logger, one) for one in (*controller_lines.STATEMENTS, *broker_lines.STATEMENTS))
_WITHOUT_RECORD: Final = grouped(
    (logger, re.compile(pattern, re.DOTALL))
    for patterns in (controller_lines.WITHOUT_RECORD, broker_lines.WITHOUT_RECORD)
    for logger, pattern in patterns.items()
)

_Item: TypeAlias = tuple[float, int, tuple[LogSource, Entry] | DatedTransaction[Logged]]
"""An entry or a transaction, after the keys that order it: its time and the rank of its source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInputs:
    """The logs that are imported.

    Attributes:
        files: the broker (None if its lines name it) and the path of each log file.
        pattern: reads the lines of all files.
        zookeeper_log: ZooKeeper's `version-2` folder; None if there is none.
        chroot: the chroot of the cluster in ZooKeeper; empty if it has none.
        has_one_clock: whether all logs are from one machine, so that no clock is aligned.
    """

    files: Sequence[tuple[int | None, Path]]
    pattern: LinePattern
    zookeeper_log: Path | None = None
    chroot: str = ""
    has_one_clock: bool = False


@dataclass(slots=True)
class ImportReport:
    """The result of an import: what was imported and what was left out.

    Attributes:
        records: how many records of each type were written.
        understood: entries that became records, or that later records needed.
        without_record: entries that are known to add nothing, by class.
        not_understood: other entries, by class.
        samples: a few entries that were not understood, by class.
        left_out: records that were not written because the logs lack something they need, by record and reason.
        clocks: the wall clocks of brokers and ZooKeeper; none if they were taken as one.
        missing: the records that are missing of the run, as `understudy replay` finds them.
        notes: facts about the logs, in words.
    """

    run: str
    brokers: tuple[int, ...]
    records: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    transactions: int = 0
    understood: int = 0
    without_record: Counter[str] = field(default_factory=Counter)
    not_understood: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    clocks: ImportedClocks = ONE_MACHINE
    missing: tuple[MissingRecords, ...] = ()
    notes: list[str] = field(default_factory=list)


def import_logs(inputs: LogInputs, output: Path, *, run: str = "") -> ImportReport:
    """Write the event logs of the brokers in `inputs` into `output`.

    Args:
        run: the run id of every record; empty for an id that is made from the time of the first entry.

    Raises:
        LogError: a log cannot be imported, or there is nothing to import.
        OSError: an event log cannot be written.
    """
    logs = log_sources(inputs.files, inputs.pattern)
    clocks, lost = ONE_MACHINE, tuple[LostStretch, ...]()
    if logs.sources:
        pairs = _pairs(inputs, logs)
        clocks = ONE_MACHINE if inputs.has_one_clock else aligned_clocks(pairs)
        lost = lost_stretches(logs.sources, pairs.sightings, pairs.registered, clocks)
    items = heapq.merge(
        *(_entries(rank, source, inputs.pattern, clocks) for rank, source in enumerate(logs.sources, 1)),
        _transactions(inputs, clocks),
        key=lambda item: item[:2],
    )
    first = next(items, None)
    if first is None:
        raise LogError("there is nothing to import: the logs have no entry")
    cluster = ImportedCluster(
        output,
        run or f"kafka-{datetime.fromtimestamp(first[0] / 1000, UTC):%Y%m%d-%H%M%S}",
        logs={(source.broker, kind) for source in logs.sources for kind in source.kinds},
        knows_all_states=inputs.zookeeper_log is not None and first_zxid(inputs.zookeeper_log) == 1,
        clocks=clocks,
        described=_description(clocks, lost),
    )
    report = ImportReport(run=cluster.run, brokers=(), clocks=clocks)
    transactions = TransactionImporter(cluster)
    try:
        for ms, _, item in chain((first,), items):
            if isinstance(item, DatedTransaction):
                transactions.add(item)
            else:
                _import_entry(*item, ms, cluster, report)
    finally:
        cluster.close()
    report.brokers = cluster.brokers
    report.records = cluster.written
    report.missing = cluster.records.missing()
    report.left_out = cluster.left_out
    report.lines = sum(source.lines for source in logs.sources)
    report.transactions = transactions.transactions
    report.notes = _notes(inputs, logs, transactions, cluster)
    return report


def _pairs(inputs: LogInputs, logs: FoundLogs) -> ClockPairs:
    """Read all logs once for what bounds their clocks. Raises LogError."""
    pairs = ClockPairs(has_zookeeper=inputs.zookeeper_log is not None)
    for broker, sources in grouped((source.broker, source) for source in logs.sources).items():
        own = (LogSource(broker, source.parts).entries(inputs.pattern) for source in sources)
        pairs.add_broker(broker, heapq.merge(*own, key=lambda entry: entry.ms))
    if inputs.zookeeper_log is not None:
        pairs.add_transactions(_logged(inputs.zookeeper_log, inputs.chroot))
    pairs.end()
    return pairs


def _description(clocks: ImportedClocks, lost: tuple[LostStretch, ...]) -> RunDescribed | None:
    """Return the record that says what the clocks of the run are, and which lines are missing; None without either."""
    if not clocks.clocks and not lost:
        return None
    return RunDescribed(lost_stretches=lost, aligned_clocks=clocks.described())


def _entries(rank: int, source: LogSource, pattern: LinePattern, clocks: ImportedClocks) -> Iterator[_Item]:
    clock = clock_of_broker(source.broker)
    last = 0.0
    for entry in source.entries(pattern):
        last = max(last, clocks.run_ms(clock, entry.ms))
        yield last, rank, (source, entry)


def _transactions(inputs: LogInputs, clocks: ImportedClocks) -> Iterator[_Item]:
    """Yield the transactions, each before the entries of its millisecond. Raises LogError."""
    if inputs.zookeeper_log is None:
        return

    def run_ms(transaction: Logged) -> float:
        return clocks.run_ms(clock_of_transaction(transaction.zxid), transaction.time_ms)

    for transaction in dated(_logged(inputs.zookeeper_log, inputs.chroot), run_ms):
        yield transaction.ms, 0, transaction


def _logged(folder: Path, chroot: str) -> Iterator[Logged]:
    """Yield ZooKeeper's transactions. Raises LogError."""
    try:
        if first_zxid(folder) is None:
            raise LogError(f"{folder} holds no log.* file; expected ZooKeeper's version-2 folder")
        yield from iterate_transaction_logs(folder, chroot=chroot)
    except (MalformedTransactionLog, OSError) as error:
        raise LogError(str(error)) from None


def _check_mode(entry: Entry) -> None:
    """Raise LogError if an entry is of a KRaft cluster."""
    if entry.logger == _OF_KRAFT:
        raise LogError(
            f"{entry.file}:{entry.line}: a line of a KRaft cluster; give the log of its quorum as well, with "
            "--metadata-log"
        )


def _import_entry(source: LogSource, entry: Entry, ms: float, cluster: ImportedCluster, report: ImportReport) -> None:
    ident = IDENT.match(entry.message)
    text = entry.message if ident is None else entry.message[ident.end() :]
    found = _find(_STATEMENTS.get(entry.logger, ()), text)
    if found is not None:
        report.understood += 1
        statement, match = found
        statement.imports(
            Line(cluster, cluster.node(source.broker), entry, ms, "" if ident is None else ident["ident"], match)
        )
    elif any(pattern.match(text) for pattern in _WITHOUT_RECORD.get(entry.logger, ())):
        report.without_record[entry.logger] += 1
    else:
        _check_mode(entry)
        name = entry.logger or "(no class)"
        report.not_understood[name] += 1
        samples = report.samples.setdefault(name, [])
        if len(samples) < MAX_SAMPLES:
            samples.append(f"{entry.file}:{entry.line}: {entry.message[:MAX_SAMPLE_CHARACTERS]}")
    cluster.node(source.broker).line_was_read(ms, EntryKind.of(entry.logger).value)


def _find(statements: Sequence[Statement], text: str) -> tuple[Statement, re.Match[str]] | None:
    for statement in statements:
        if (match := statement.pattern.match(text)) is not None:
            return statement, match
    return None


def _notes(
    inputs: LogInputs,
    logs: FoundLogs,
    transactions: TransactionImporter,
    cluster: ImportedCluster,
) -> list[str]:
    notes = [] if cluster.clocks.clocks else ["the clocks of all machines are taken as one"]
    notes += [f"the clocks of {which} contradict each other in part" for which in cluster.clocks.contradictions]
    notes += [f"{file} is empty" for file in logs.empty]
    for survey in logs.surveys:
        if survey.strays:
            notes.append(
                f"{survey.parts[0].file}: {counted(survey.strays, 'line')} not in the form of {survey.form.title}, the "
                f"first of them line {survey.first_stray}"
            )
    notes += [f"{part}: {counted(part.lines, 'line')} without the id of a broker" for part in logs.without_broker]
    for source in logs.sources:
        if source.out_of_order:
            kinds = ", ".join(kind.value for kind in source.kinds)
            notes.append(
                f"broker {source.broker}, {kinds}: {source.out_of_order:,} entries were out of order by less than a "
                "second; each has the time of the one before"
            )
        notes += [f"{file}: {count:,} lines before its first entry" for file, count in source.loose.items()]
    if inputs.zookeeper_log is not None and not cluster.knows_all_states:
        notes.append(
            f"ZooKeeper's transaction log begins at zxid {first_zxid(inputs.zookeeper_log):#x}: states and sessions "
            "from before are not known"
        )
    if transactions.unknown_writers:
        notes.append(
            f"{transactions.unknown_writers:,} partition states were written in sessions without a registration; they "
            "have no record"
        )
    return notes + [f"ZooKeeper's transaction log: {what}" for what in transactions.malformed]
