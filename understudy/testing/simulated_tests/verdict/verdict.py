"""Finds why a run has failed, beside what the test itself asserts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any, Final

from understudy.clusters.cluster import ClusterError, WaitTimedOut
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.world import Failure, VirtualWorld
from understudy.testing.simulated_tests.history import history_words
from understudy.testing.simulated_tests.history.history_checks import Evidence, lost_in_words, lost_sends
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.outcome import FailureKind, LostRecord, Problem
from understudy.testing.simulated_tests.verdict.code_lines import (
    coroutine_name,
    name_of,
    raised_at,
    raising_line,
    traceback_lines,
)
from understudy.testing.simulated_tests.verdict.leader_logs import leader_logs
from understudy.testing.simulated_tests.verdict.waiting_tasks import in_words, listed, unfinished
from understudy.testing.simulated_tests.verdict.watch import RunWatch
from understudy.trials.seeds.judgement import SeedJudgement
from understudy.trials.seeds.settling import SETTLE_TIMEOUT_S, settle_after_faults

CLOSING_S: Final = 2.0
"""Virtual time that tasks have to end after the test: connections and generators are closed in tasks of their own."""

_ALL, _LEADER = -1, 1


def of_test(error: BaseException, world: VirtualWorld, at_ms: float) -> Problem:
    """Return the problem of a test that has raised an exception.

    If it has waited too long, the tasks that wait are listed as well.
    """
    details = list(traceback_lines(error))
    if isinstance(error, (WaitTimedOut, TimeoutError)):
        waiting = listed(loop for loop in world.loops if loop.process.name in world.services)
        details += ["the services wait:", *waiting] if waiting else []
    if isinstance(error, asyncio.CancelledError):
        return Problem(FailureKind.TEST, at_ms, "the test was cancelled", tuple(details), "cancelled")
    text = f"the test has raised {name_of(error)}"
    return Problem(FailureKind.TEST, at_ms, text, tuple(details), raised_at(error))


def left_over(watch: RunWatch, loop: ProcessLoop, test: asyncio.Future[Any], now_ms: float) -> list[Problem]:
    """Give the tasks of the test's process a moment to end, and return the problem of those that have not."""
    for _ in range(round(CLOSING_S / 0.1)):
        if not unfinished(loop, (test,)):
            return []
        if (spin := watch.step()) is not None:
            return [spin]
    left = unfinished(loop, (test,))
    if not left:
        return []
    names = sorted({coroutine_name(task) for task in left})
    text = f"{len(left)} {'task is' if len(left) == 1 else 'tasks are'} left over, which the test has not awaited"
    return [Problem(FailureKind.TASKS, now_ms, text, tuple(map(in_words, left)), ", ".join(names))]


def unhandled(world: VirtualWorld) -> list[Problem]:
    """Return the exceptions that no handler of a process has taken so far, each cause once."""
    world.cluster.loop.report_lost_exceptions()
    gc.collect()
    found: dict[tuple[FailureKind, str], Problem] = {}
    counts: dict[tuple[FailureKind, str], int] = {}
    for failure in world.failures:
        problem = _of_failure(failure)
        found.setdefault(problem.way, problem)
        counts[problem.way] = counts.get(problem.way, 0) + 1
    more = (f"the first of {count}" for count in counts.values())
    return [
        problem
        if counts[way] == 1
        else Problem(problem.kind, problem.at_ms, f"{problem.text}, {text}", problem.details, problem.place)
        for (way, problem), text in zip(found.items(), more, strict=True)
    ]


def _of_failure(failure: Failure) -> Problem:
    error = failure.error
    details = () if error is None else traceback_lines(error)
    place = failure.what if error is None else raised_at(error)
    raised = "" if error is None else f": {name_of(error)}"
    if failure.source is None and error is not None:
        text = f"the service {failure.process} has ended with {name_of(error)}"
        return Problem(FailureKind.SERVICE, failure.at_ms, text, details, f"{failure.process}: {place}")
    if isinstance(failure.source, asyncio.Future) and error is not None:
        text = f"an exception of {coroutine_name(failure.source)} in {failure.process} was never retrieved{raised}"
    else:
        text = f"asyncio reports in {failure.process}: {failure.what}{raised}"
    return Problem(FailureKind.EXCEPTION, failure.at_ms, text, details, f"{failure.process}: {place}")


def not_settled(cluster: SimulatedCluster) -> list[Problem]:
    """Let the cluster settle after the faults; return the problem if it does not."""
    cluster.loop.allow(20_000_000)
    try:
        settle_after_faults(cluster, SETTLE_TIMEOUT_S)
    except BudgetExhausted as error:
        return [
            Problem(
                FailureKind.SPIN, cluster.now_ms, f"the cluster cannot settle, because a process does not wait: {error}"
            )
        ]
    except (ClusterError, Deadlock) as error:
        return [Problem(FailureKind.UNSETTLED, cluster.now_ms, f"the cluster does not settle: {error}")]
    return []


def lost_records(cluster: SimulatedCluster, wire: WireHistory) -> list[Problem]:
    """Return the problem of records that were acknowledged with acks=all and are in no log.

    Call it when the cluster has settled. Partitions with an unclean election or a loss of power are left out.
    """
    evidence = _evidence(cluster, wire, _ALL)
    found = lost_sends(evidence, None)
    if not found:
        return []
    details = history_words.listed("lost", [lost_in_words(evidence, each) for each in found]).splitlines()[1:]
    count = "a record is" if len(found) == 1 else f"{len(found)} records are"
    text = f"{count} lost, which brokers have acknowledged with acks=all"
    first = LostRecord(found[0].topic, found[0].partition, found[0].offset)
    return [Problem(FailureKind.LOST, cluster.now_ms, text, tuple(line.strip() for line in details), lost=first)]


def lost_with_acks_1(cluster: SimulatedCluster, wire: WireHistory) -> list[str]:
    """Return a note about records that were acknowledged by a leader alone and are in no log.

    Kafka allows it, so it is no problem of its own; but it may be the reason of another.
    """
    found = lost_sends(_evidence(cluster, wire, _LEADER), None)
    if not found:
        return []
    count = "a record is" if len(found) == 1 else f"{len(found)} records are"
    return [f"note: {count} lost, which the leader alone had acknowledged (acks=1); acks='all' waits for the others"]


def restarted(world: VirtualWorld) -> list[str]:
    """Return a note about each service that was started again after an exception.

    As the test has asked for that, it is no problem of its own; but a service that ends again and again may be the
    reason of another.
    """
    notes: list[str] = []
    for service in world.services.values():
        errors = [error for error in service.exits if error is not None]
        if errors and service.restarts:
            times = "once" if len(errors) == 1 else f"{len(errors)} times, the last time"
            line = raising_line(errors[-1])
            place = "" if line is None else f", at {line}"
            error = name_of(errors[-1]).partition("\n")[0]
            notes.append(f"note: the service {service.name} has ended {times} with {error}{place}")
    return notes


def _evidence(cluster: SimulatedCluster, wire: WireHistory, acks: int) -> Evidence:
    """Return what shows whether records that were sent with `acks` are lost."""
    sent = [each for each in wire.sends() if each.acks == acks]
    return Evidence(sent, (), (), (), leader_logs(cluster) if sent else {})


def violations(judgement: SeedJudgement, now_ms: float) -> list[Problem]:
    """Return what the checks over the brokers' event logs have found: faults of the brokers, not of a client."""
    return [
        Problem(FailureKind.INVARIANT, now_ms, f"the brokers have failed a check: {each}", (), each.partition(" ")[0])
        for each in judgement.problems
    ]


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems in the order of their importance: what the user's code did, then what the cluster did."""
    order = list(FailureKind)
    return sorted(problems, key=lambda problem: order.index(problem.kind))
