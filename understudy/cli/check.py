"""`understudy check`: every invariant, asked of a run that is over or still going on.

Reads the event logs of the run folder and, where `cluster.json` names the transaction log of the run's own ZooKeeper,
the history of the znodes. Exit code 0: everything holds; 1: something is violated; 2: there is nothing to judge.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from understudy.cli.arguments import BadInput, Verbs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from foundation.eventlog.reader import Finding
    from foundation.eventlog.records import Envelope
    from understudy.checkers.check import Violation
    from understudy.checkers.history import ZnodeTransaction
    from understudy.checkers.verdict import Family


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("check", help="hold the logs of a run to every invariant", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run folder that `understudy up` named")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    verdict = check_run_folder(options.folder)
    print("\n".join(describe(verdict)))
    return 1 if verdict.violations else 0


class FamilyVerdict(NamedTuple):
    """What came of the checks that belong together."""

    name: str
    ids: tuple[str, ...]
    violated: tuple[str, ...]
    records: int
    """Those that one of the checks reads."""
    transactions: int
    """All of them, where one of the checks reads transactions."""
    judged: int
    """How often its checks were put to the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What the checkers say of a run folder.

    Attributes:
        violations: each violated check with its first witness; T2 stands for logs with lines missing or broken.
        untested: ids of the checks that nothing in this run put to the test.
        notes: what is to be known about the logs without being a violation.
    """

    records: int
    transactions: int
    families: tuple[FamilyVerdict, ...]
    violations: tuple[Violation, ...]
    untested: tuple[str, ...]
    notes: tuple[str, ...]


def check_run_folder(folder: Path) -> RunVerdict:
    """All checks over the event logs below `folder` and the history of its znodes, if its ZooKeeper was its own.

    Works on a running cluster too: the event logs are read first, so that no record is newer than the history.

    Raises:
        BadInput: there is no event log, or it is not that of one cluster, or `cluster.json` or the transaction log is
            damaged.
    """
    from foundation.eventlog.reader import NO_FILES, read
    from understudy.checkers.verdict import Judge

    reading = read([folder])
    if not reading.records:
        why = next((f": {found.what}" for found in reading.findings if found.kind == NO_FILES and found.what), "")
        raise BadInput(f"{folder} holds no event log to check{why}; give the run folder that `understudy up` named")
    nodes = _by_node(folder, reading.records)
    transactions, note = _history(folder)
    judge = Judge()
    broken, notes = _log_findings(reading.findings)
    violations = (*broken, *judge.run(nodes, transactions))
    return RunVerdict(
        records=len(reading.records),
        transactions=len(transactions),
        families=_families(reading.records, len(transactions), violations, judge.judged),
        violations=violations,
        untested=tuple(check for check, judged in judge.judged.items() if not judged),
        notes=(*note, *notes),
    )


def describe(verdict: RunVerdict) -> list[str]:
    """The verdict for people, in lines."""
    lines = []
    for family in verdict.families:
        holds = f"{len(family.ids) - len(family.violated)} of {len(family.ids)} checks hold"
        amounts = [f"{family.records:,} records"] * bool(family.records)
        amounts += [f"{family.transactions:,} transactions"] * bool(family.transactions)
        amounts += [f"judged {family.judged:,} times" if family.judged else "nothing to judge"]
        lines.append(f"{family.name:<17} {holds}; {', '.join(amounts)}")
    if verdict.untested:
        lines.append(f"{'not tested':<17} {', '.join(verdict.untested)}: nothing in this run put them to the test")
    lines += [f"{'note':<17} {note}" for note in verdict.notes]
    lines += [str(violation) for violation in verdict.violations]
    return [*lines, f"{len(verdict.violations) or 'no'} violation{'' if len(verdict.violations) == 1 else 's'}"]


def _by_node(folder: Path, records: Iterable[Envelope]) -> dict[str, list[Envelope]]:
    """Each node's records in order. Incarnations count on from one run of a folder to the next.

    Raises:
        BadInput: an incarnation belongs to two runs.
    """
    run_of: dict[tuple[str, int], str] = {}
    nodes: dict[str, list[Envelope]] = {}
    for record in records:
        run = run_of.setdefault((record.node, record.incarnation), record.run)
        if run != record.run:
            both = f"{record.node} incarnation {record.incarnation} occurs in run {run!r} and in run {record.run!r}"
            raise BadInput(f"{folder} holds the logs of several clusters: {both}; give the folder of one run")
        nodes.setdefault(record.node, []).append(record)
    for node in nodes:
        nodes[node].sort(key=lambda record: (record.incarnation, record.seq))
    return nodes


def _history(folder: Path) -> tuple[list[ZnodeTransaction], list[str]]:
    """The znode history, and a note where there is none.

    Raises:
        BadInput: it should be there and cannot be read.
    """
    from understudy.testbed.run_folder import CLUSTER_FILE, NotARunFolder, read_cluster_file
    from understudy.testbed.transaction_log import MalformedTransactionLog, first_zxid, read_transaction_logs

    if not (folder / CLUSTER_FILE).exists():
        return [], [f"no {CLUSTER_FILE} here, hence no znode history: the event logs are judged alone"]
    try:
        log = read_cluster_file(folder).zookeeper_transaction_log
        if log is None:
            return [], ["the ZooKeeper was not this run's own, hence no znode history: the event logs are judged alone"]
        begins_at = first_zxid(folder / log)
        if begins_at is None:
            raise BadInput(f"{folder / log} holds no transaction log, though {folder / CLUSTER_FILE} says so")
        if begins_at > 1:
            return [], [
                f"the znode history begins at zxid {begins_at} only, the rest is gone: the event logs are judged alone"
            ]
        return read_transaction_logs(folder / log), []
    except (NotARunFolder, MalformedTransactionLog, OSError) as error:
        raise BadInput(str(error)) from None


def _log_findings(findings: Iterable[Finding]) -> tuple[list[Violation], list[str]]:
    """What is wrong with the logs themselves (T2), and what a killed writer may leave behind."""
    from foundation.eventlog.reader import EMPTY_FILE, TORN_LINE
    from understudy.checkers.check import Violation

    excusable = [found for found in findings if found.kind in (TORN_LINE, EMPTY_FILE)]
    broken = [found for found in findings if found not in excusable]
    sentence = "every line of an event log is a whole record, and an incarnation numbers its records without a gap"
    violations = [Violation("T2", sentence, str(found), found.file) for found in broken[:1]]
    return violations, [str(found) for found in (*broken[1:], *excusable)]


def _families(
    records: Iterable[Envelope], transactions: int, violations: Iterable[Violation], judged: Mapping[str, int]
) -> tuple[FamilyVerdict, ...]:
    from understudy.checkers.verdict import FAMILIES

    by_type = Counter(type(record.data) for record in records)
    violated = {violation.check for violation in violations}

    def verdict_on(family: Family) -> FamilyVerdict:
        ids = tuple(check.id for check in family.checks)
        read = {payload: by_type[payload] for check in family.checks for payload in check.reads}
        return FamilyVerdict(
            name=family.name,
            ids=ids,
            violated=tuple(check for check in ids if check in violated),
            records=sum(read.values()),
            transactions=transactions if any(check.reads_transactions for check in family.checks) else 0,
            judged=sum(judged[check] for check in ids),
        )

    return tuple(map(verdict_on, FAMILIES))
