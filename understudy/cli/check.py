"""`understudy check`: check all invariants over a run that has ended or is in progress.

Reads the event logs of the run folder and, if `cluster.json` names the transaction log of the run's own ZooKeeper,
the history of the znodes. The exit code is 0 if all invariants hold, 1 if one is violated, 2 if the folder cannot be
checked.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from understudy.checks.check import Violation
from understudy.checks.history import ZnodeTransaction
from understudy.checks.invariant_checker import CHECK_GROUPS, CheckGroup, InvariantChecker
from understudy.cli.arguments import BadInput, reported_as
from understudy.clusters.processes.run_folder import CLUSTER_FILE, NotARunFolder, read_cluster_file
from understudy.foundation.eventlog.records import Envelope
from understudy.history.reading.findings import EMPTY_FILE, NO_FILES, OUT_OF_ORDER, TORN_LINE, LogFinding
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import (
    MalformedTransactionLog,
    first_zxid,
    is_whole,
    read_transaction_logs,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run folder that `understudy up` named")


def run(options: argparse.Namespace) -> int:
    report = check_run_folder(options.folder)
    print("\n".join(describe(report)))
    return 1 if report.violations else 0


class GroupReport(NamedTuple):
    """The result of one group of checks."""

    name: str
    ids: tuple[str, ...]
    violated: tuple[str, ...]
    """The ids of the violated checks."""
    records: int
    """Number of records that its checks have read."""
    transactions: int
    """Number of transactions that its checks have read."""
    times_tested: int
    """Number of times that its invariants could have been violated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The result of all checks over a run folder.

    Attributes:
        violations: the first violation of each invariant; T2 stands for event logs with missing or broken lines.
        untested: the ids of the checks whose invariants nothing in this run could have violated.
        notes: facts about the logs that are not violations.
    """

    records: int
    transactions: int
    groups: tuple[GroupReport, ...]
    violations: tuple[Violation, ...]
    untested: tuple[str, ...]
    notes: tuple[str, ...]


def check_run_folder(folder: Path) -> RunReport:
    """Run all checks over the event logs below `folder` and, if the run had its own ZooKeeper, its znodes' history.

    The cluster may be running: the event logs are read first, so that no record is newer than the history.

    Raises:
        BadInput: there are no event logs, or logs of several clusters, or `cluster.json` or the transaction log is
            damaged.
    """
    reading = read([folder])
    if not reading.records:
        why = next((f": {found.what}" for found in reading.findings if found.kind == NO_FILES and found.what), "")
        raise BadInput(f"{folder} holds no event log to check{why}; give the run folder that `understudy up` named")
    nodes = _by_node(folder, reading.records)
    transactions, note = _history(folder)
    checker = InvariantChecker()
    broken, notes = _log_findings(reading.findings)
    violations = (*broken, *checker.run(nodes, transactions))
    return RunReport(
        records=len(reading.records),
        transactions=len(transactions),
        groups=_groups(reading.records, len(transactions), violations, checker.times_tested),
        violations=violations,
        untested=tuple(check for check, times in checker.times_tested.items() if not times),
        notes=(*note, *notes),
    )


def describe(report: RunReport) -> list[str]:
    """Return the lines that `understudy check` prints."""
    lines = []
    for group in report.groups:
        holds = f"{len(group.ids) - len(group.violated)} of {len(group.ids)} checks hold"
        amounts = [f"{group.records:,} records"] * bool(group.records)
        amounts += [f"{group.transactions:,} transactions"] * bool(group.transactions)
        amounts += [f"tested {group.times_tested:,} times" if group.times_tested else "nothing to test"]
        lines.append(f"{group.name:<17} {holds}; {', '.join(amounts)}")
    if report.untested:
        lines.append(f"{'not tested':<17} {', '.join(report.untested)}: nothing in this run could have violated them")
    lines += [f"{'note':<17} {note}" for note in report.notes]
    lines += [str(violation) for violation in report.violations]
    return [*lines, f"{len(report.violations) or 'no'} violation{'' if len(report.violations) == 1 else 's'}"]


def _by_node(folder: Path, records: Iterable[Envelope]) -> dict[str, list[Envelope]]:
    """Return each node's records in order.

    A folder may hold several runs of one cluster: each continues the numbering of the incarnations.

    Raises:
        BadInput: an incarnation occurs in two runs, as with the logs of several clusters.
    """
    runs: dict[tuple[str, int], dict[str, None]] = {}
    nodes: dict[str, list[Envelope]] = {}
    for record in records:
        runs.setdefault((record.node, record.incarnation), {})[record.run] = None
        nodes.setdefault(record.node, []).append(record)
    for (node, incarnation), (run, *others) in sorted((name, list(found)) for name, found in runs.items()):
        if others:
            both = f"{node} incarnation {incarnation} occurs in run {run!r} and in run {others[0]!r}"
            raise BadInput(f"{folder} holds the logs of several clusters: {both}; give the folder of one run")
    for node in nodes:
        nodes[node].sort(key=lambda record: (record.incarnation, record.seq))
    return nodes


@reported_as(BadInput, NotARunFolder, MalformedTransactionLog, OSError)
def _history(folder: Path) -> tuple[list[ZnodeTransaction], list[str]]:
    """Return the history of the znodes, or an empty one with a note that says why there is none.

    Raises:
        BadInput: `cluster.json` names a transaction log that cannot be read.
    """
    if not (folder / CLUSTER_FILE).exists():
        return [], [
            f"there is no {CLUSTER_FILE}, so only the event logs are checked, without the history of the znodes"
        ]
    logs = [folder / log for log in read_cluster_file(folder).transaction_logs]
    if not logs:
        return [], ["the run used another ZooKeeper, so only the event logs are checked, without its znodes' history"]
    begins_at = [zxid for log in logs if (zxid := first_zxid(log)) is not None]
    if not begins_at:
        raise BadInput(f"{logs[0]} holds no transaction log, though {folder / CLUSTER_FILE} names it")
    if not is_whole(*logs):
        return [], [
            f"the transaction log begins at zxid {min(begins_at)} instead of 1, so only the event logs are checked"
        ]
    return read_transaction_logs(*logs), []


def _log_findings(findings: Iterable[LogFinding]) -> tuple[list[Violation], list[str]]:
    """Return the violation of T2 by event logs with missing or broken lines, and notes.

    An empty file and a torn last line are only noted: a broker that is killed may leave them. So are lines out of
    order: no record is missing.
    """
    harmless = [found for found in findings if found.kind in (TORN_LINE, EMPTY_FILE, OUT_OF_ORDER)]
    broken = [found for found in findings if found not in harmless]
    sentence = "every line of an event log is a whole record, and an incarnation numbers its records without a gap"
    violations = [Violation("T2", sentence, str(found), found.file) for found in broken[:1]]
    return violations, [str(found) for found in (*broken[1:], *harmless)]


def _groups(
    records: Iterable[Envelope], transactions: int, violations: Iterable[Violation], times_tested: Mapping[str, int]
) -> tuple[GroupReport, ...]:
    by_type = Counter(type(record.data) for record in records)
    violated = {violation.check for violation in violations}

    def report(group: CheckGroup) -> GroupReport:
        ids = tuple(check.id for check in group.checks)
        read = {payload: by_type[payload] for check in group.checks for payload in check.reads}
        return GroupReport(
            name=group.name,
            ids=ids,
            violated=tuple(check for check in ids if check in violated),
            records=sum(read.values()),
            transactions=transactions if any(check.reads_transactions for check in group.checks) else 0,
            times_tested=sum(times_tested[check] for check in ids),
        )

    return tuple(map(report, CHECK_GROUPS))
