"""What the checkers say of a finished simulation, and what else must never happen in one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

from foundation.eventlog.fences import Fence
from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import ControllerElected, TaskFailed
from understudy.checkers.invariant_checker import InvariantChecker
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.environment import Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    problems: tuple[str, ...]
    """Violated checks, unhandled exceptions, failed tasks, brokers that died of something unexplained."""
    elections: int
    records: int
    fence_hits: Counter[Fence]
    judged: Counter[str]
    """How often each check, by id, was put to the test."""
    log_digest: str
    """BLAKE2 over every line of every node's event log: equal for equal histories."""


def judge(cluster: SimulatedCluster) -> Judgement:
    """Judge a run. Its cluster has been closed, so that unretrieved exceptions have come to light."""
    folding = InvariantChecker()
    for transaction in cluster.zookeeper.transactions:
        folding.transaction(transaction)
    digest = blake2b(digest_size=16)
    records = elections = 0
    fence_hits: Counter[Fence] = Counter()
    failed_tasks: list[str] = []
    for node in cluster.nodes:
        for lines in node.lines.values():
            for line in lines:
                digest.update(line)
                record = decode_record(line)
                folding.record(record)
                records += 1
                elections += isinstance(record.data, ControllerElected)
                if isinstance(record.data, TaskFailed):
                    failed_tasks.append(f"{node.name}: {record.data.task} failed: {record.data.error}")
        fence_hits.update(node.fence_hits)
    problems = [str(violation) for violation in folding.violations()]
    problems += [f"unhandled: {failure}" for failure in cluster.loop.failures]
    problems += failed_tasks
    problems += _deaths(cluster)
    return Judgement(
        problems=tuple(problems),
        elections=elections,
        records=records,
        fence_hits=fence_hits,
        judged=Counter(folding.times_tested),
        log_digest=digest.hexdigest(),
    )


def _deaths(cluster: SimulatedCluster) -> list[str]:
    """Each cause once: a broker that cannot live is started again and again."""
    by_cause: dict[str, list[Exit]] = {}
    for end in cluster.exits:
        if end.is_unexpected:
            by_cause.setdefault(repr(end.error), []).append(end)
    return [
        f"{ends[0].node} died at {ends[0].at_ms:.0f} ms of {cause}"
        + (f", the first of {len(ends)}" if len(ends) > 1 else "")
        for cause, ends in by_cause.items()
    ]
