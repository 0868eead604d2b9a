"""Judges a finished simulation: runs all checks over it, and collects what must not happen in any simulation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from understudy.checks.invariant_checker import InvariantChecker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.environment import Exit
from understudy.foundation.eventlog.fences import Switch
from understudy.foundation.eventlog.records import ControllerElected, Envelope, TaskFailed
from understudy.foundation.times import moment
from understudy.history.reading.sequences import RecordSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedJudgement:
    """The problems of a finished simulation, and how much of it was checked."""

    problems: tuple[str, ...]
    """Violated checks, unhandled exceptions, failed tasks, and brokers that ended unexpectedly."""
    elections: int
    records: int
    fence_hits: Counter[Switch]
    times_tested: Counter[str]
    """Number of cases that each check has examined, by id."""
    log_digest: str
    """BLAKE2 over every line of every node's event log: two equal runs have the same digest."""


def judge(cluster: SimulatedCluster) -> SeedJudgement:
    """Judge a run. Close its cluster before, which reports the exceptions of tasks that were never awaited."""
    records = cluster.records()
    by_node: defaultdict[str, list[Envelope]] = defaultdict(list)
    for record in records:
        by_node[record.node].append(record)
    checks = InvariantChecker()
    problems = [str(violation) for violation in checks.run(by_node, cluster.zookeeper.transactions)]
    problems += _sequence_problems(by_node)
    problems += [f"unhandled: {failure}" for failure in cluster.loop.failures]
    digest = blake2b(digest_size=16)
    fence_hits: Counter[Switch] = Counter()
    for log in cluster.logs:
        for lines in log.lines.values():
            digest.update(b"".join(lines))
    for node in cluster.nodes:
        fence_hits.update(node.fence_hits)
        problems += [
            f"{node.name}: {record.data.task} failed: {record.data.error}"
            for record in by_node[node.name]
            if isinstance(record.data, TaskFailed)
        ]
    problems += unexpected_ends(cluster)
    return SeedJudgement(
        problems=tuple(problems),
        elections=sum(isinstance(record.data, ControllerElected) for record in records),
        records=len(records),
        fence_hits=fence_hits,
        times_tested=Counter(checks.times_tested),
        log_digest=digest.hexdigest(),
    )


def _sequence_problems(by_node: Mapping[str, Sequence[Envelope]]) -> list[str]:
    """Return the first gap or repeat in the sequence numbers of an incarnation (T2).

    Its lines were kept in memory, so that none is lost: the fault is the writer's.
    """
    problems = []
    for records in by_node.values():
        sequences: defaultdict[int, RecordSequence] = defaultdict(RecordSequence)
        for record in records:
            sequence = sequences[record.incarnation]
            last = sequence.seq
            if sequence.flaws(record.seq, 0.0):
                place = f"{record.node}/{record.incarnation}#{record.seq}"
                problems.append(f"T2 violated at {place}: record {record.seq} follows {last}")
    return problems[:1]


def unexpected_ends(cluster: SimulatedCluster, with_broken_disk: Collection[str] = ()) -> list[str]:
    """Describe the brokers that ended unexpectedly, each cause once: a broker is started again after each exit.

    Args:
        with_broken_disk: brokers whose end is expected, because their disk was made to fail.
    """
    by_cause: dict[str, list[Exit]] = {}
    for end in cluster.exits:
        if end.is_unexpected and end.node not in with_broken_disk:
            by_cause.setdefault(repr(end.error), []).append(end)
    return [
        f"{ends[0].node} ended at {moment(ends[0].at_ms)} with {cause}"
        + (f", the first of {len(ends)}" if len(ends) > 1 else "")
        for cause, ends in by_cause.items()
    ]
