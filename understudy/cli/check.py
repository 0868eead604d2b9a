"""`understudy check`: check all invariants over a run that has ended or is in progress.

Reads the event logs of the run folder and, if `cluster.json` names the transaction log of the run's own ZooKeeper,
the history of the znodes. The exit code is 0 if all invariants hold, 1 if one is violated, 2 if the folder cannot be
checked, and 3 if records are missing: an invariant cannot be judged, or all hold only in the records that are there.
"""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from understudy.checks.check import Unjudged, Violation
from understudy.checks.history import ZnodeTransaction
from understudy.checks.invariant_checker import CHECK_GROUPS, CheckGroup, InvariantChecker
from understudy.cli.arguments import BadInput, reported_as
from understudy.clusters.processes.run_folder import CLUSTER_FILE, NotARunFolder, read_cluster_file
from understudy.foundation.eventlog.records import Envelope, RunDescribed
from understudy.history.reading.completeness import judge_completeness
from understudy.history.reading.findings import NO_FILES
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import (
    MalformedTransactionLog,
    first_zxid,
    is_whole,
    missing_transactions,
    read_transaction_logs,
)
from understudy.history.witness import link_to_problem

CANNOT_BE_JUDGED = 3
"""The exit code if records are missing and no invariant is violated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run folder that `understudy up` named")
    parser.epilog = (
        "The exit code is 0 if all invariants hold, 1 if one is violated, 2 if the folder cannot be checked, and 3 if "
        "records are missing: an invariant cannot be judged, or all hold only in the records that are there."
    )


def run(options: argparse.Namespace) -> int:
    report = check_run_folder(options.folder)
    print("\n".join(describe(report, options.folder)))
    return report.exit_code


class GroupReport(NamedTuple):
    """The result of one group of checks."""

    name: str
    ids: tuple[str, ...]
    violated: tuple[str, ...]
    """The ids of the violated checks."""
    unjudged: tuple[str, ...]
    """The ids of the checks that cannot be judged."""
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
        violations: the first violation of each invariant.
        unjudged: the first contradiction of each other invariant that missing records could refute.
        missing: the records and transactions that are missing, each as a sentence without a full stop.
        untested: the ids of the checks whose invariants nothing in this run could have violated.
        notes: facts about the logs that are neither.
        links: by the id of a violated check, the end of the page's address that shows the record and what proves it.
    """

    records: int
    transactions: int
    groups: tuple[GroupReport, ...]
    violations: tuple[Violation, ...]
    unjudged: tuple[Unjudged, ...]
    missing: tuple[str, ...]
    untested: tuple[str, ...]
    notes: tuple[str, ...]
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        if self.violations:
            return 1
        return CANNOT_BE_JUDGED if self.missing or self.unjudged else 0


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
    is_kraft = any(isinstance(record.data, RunDescribed) and record.data.is_kraft for record in reading.records)
    history = _History([]) if is_kraft else _history(folder, max(record.zxid for record in reading.records))
    completeness = judge_completeness(reading.records, reading.findings, is_running=_is_running(folder))
    checker = InvariantChecker(missing=completeness.evidence(has_znodes=bool(history.transactions)))
    violations = tuple(checker.run(nodes, history.transactions))
    unjudged = tuple(checker.unjudged)
    return RunReport(
        records=len(reading.records),
        transactions=len(history.transactions),
        groups=_groups(reading.records, len(history.transactions), violations, unjudged, checker.times_tested),
        violations=violations,
        unjudged=unjudged,
        missing=(*history.missing, *completeness.missing),
        untested=tuple(check for check, times in checker.times_tested.items() if not times),
        notes=(*history.notes, *completeness.notes),
        links={each.check: link_to_problem(str(each), reading.records) for each in violations},
    )


def describe(report: RunReport, folder: Path | None = None) -> list[str]:
    """Return the lines that `understudy check` prints; with a folder also how the page shows a violation."""
    lines, in_these = [], " in the records that are there"
    for group in report.groups:
        held = len(group.ids) - len(group.violated) - len(group.unjudged)
        holds = f"{held} of {len(group.ids)} checks hold" + in_these * bool(report.missing)
        holds += f", {len(group.unjudged)} cannot be judged" if group.unjudged else ""
        amounts = [f"{group.records:,} records"] * bool(group.records)
        amounts += [f"{group.transactions:,} transactions"] * bool(group.transactions)
        amounts += [f"tested {group.times_tested:,} times" if group.times_tested else "nothing to test"]
        lines.append(f"{group.name:<17} {holds}; {', '.join(amounts)}")
    if report.untested:
        lines.append(f"{'not tested':<17} {', '.join(report.untested)}: nothing in this run could have violated them")
    lines += [f"{'note':<17} {note}" for note in report.notes]
    lines += [f"{'missing':<17} {missing}" for missing in report.missing]
    lines += map(str, report.unjudged)
    for violation in report.violations:
        lines.append(str(violation))
        if folder is not None and violation.check in report.links:
            watch = f"understudy watch {shlex.quote(str(folder))}"
            lines.append(f"  see it on the page of `{watch}`, with {report.links[violation.check]} after its address")
    result = f"{len(report.violations) or 'no'} violation{'' if len(report.violations) == 1 else 's'}"
    result += in_these * bool(report.missing)
    if report.unjudged:
        result += f", {len(report.unjudged)} check{'' if len(report.unjudged) == 1 else 's'} cannot be judged"
    return [*lines, result]


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
    for (node, incarnation), (run, *others) in sorted((name, sorted(found)) for name, found in runs.items()):
        if others:
            both = f"{node} incarnation {incarnation} occurs in run {run!r} and in run {others[0]!r}"
            raise BadInput(f"{folder} holds the logs of several clusters: {both}; give the folder of one run")
    for node in nodes:
        nodes[node].sort(key=lambda record: (record.incarnation, record.seq))
    return nodes


class _History(NamedTuple):
    """The history of the znodes; empty with a note, or with a sentence about its missing part, if it is not whole."""

    transactions: list[ZnodeTransaction]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


@reported_as(BadInput, NotARunFolder)
def _is_running(folder: Path) -> bool:
    """Return whether the process that runs the cluster of a folder has not ended. Raises BadInput."""
    return (folder / CLUSTER_FILE).exists() and read_cluster_file(folder).owner.is_running


@reported_as(BadInput, NotARunFolder, MalformedTransactionLog, OSError)
def _history(folder: Path, seen_zxid: int) -> _History:
    """Return the history of the znodes.

    Args:
        seen_zxid: the largest zxid that the event logs name.

    Raises:
        BadInput: `cluster.json` names a transaction log that cannot be read.
    """
    only_logs = "so only the event logs are checked"
    if not (folder / CLUSTER_FILE).exists():
        return _History([], (f"there is no {CLUSTER_FILE}, {only_logs}, without the history of the znodes",))
    logs = [folder / log for log in read_cluster_file(folder).transaction_logs]
    if not logs:
        return _History([], (f"the run used another ZooKeeper, {only_logs}, without its znodes' history",))
    begins_at = [zxid for log in logs if (zxid := first_zxid(log)) is not None]
    if not begins_at:
        raise BadInput(f"{logs[0]} holds no transaction log, though {folder / CLUSTER_FILE} names it")
    if not is_whole(*logs):
        return _History([], (f"the transaction log begins at zxid {min(begins_at)} instead of 1, {only_logs}",))
    transactions = read_transaction_logs(*logs)
    if missing := missing_transactions(*logs, seen_zxid=seen_zxid):
        return _History([], missing=(f"a part of the transaction log: {missing}, {only_logs}",))
    return _History(transactions)


def _groups(
    records: Iterable[Envelope],
    transactions: int,
    violations: Iterable[Violation],
    unjudged: Iterable[Unjudged],
    times_tested: Mapping[str, int],
) -> tuple[GroupReport, ...]:
    by_type = Counter(type(record.data) for record in records)
    violated = {violation.check for violation in violations}
    not_judged = {each.check for each in unjudged}

    def report(group: CheckGroup) -> GroupReport:
        ids = tuple(check.id for check in group.checks)
        read = {payload: by_type[payload] for check in group.checks for payload in check.reads}
        return GroupReport(
            name=group.name,
            ids=ids,
            violated=tuple(check for check in ids if check in violated),
            unjudged=tuple(check for check in ids if check in not_judged),
            records=sum(read.values()),
            transactions=transactions if any(check.reads_transactions for check in group.checks) else 0,
            times_tested=sum(times_tested[check] for check in ids),
        )

    return tuple(map(report, CHECK_GROUPS))
