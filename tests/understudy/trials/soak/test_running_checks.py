"""The checks over a run in progress: the same verdict as over the whole run, piece by piece and in windows."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import structs

from tests.understudy.checks.histories import History
from understudy.checks.history import ZnodeTransaction
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.fences import SWITCHES, Switch
from understudy.foundation.eventlog.records import Envelope, EventQueued, EventStarted, TaskFailed
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import SeedJudgement, judge
from understudy.trials.seeds.seed_plans import draw_plan
from understudy.trials.seeds.seeds import run_plan
from understudy.trials.soak import running_checks
from understudy.trials.soak.running_checks import LOG_CHECKS, OTHER_CHECKS, RunningChecks

SECONDS = 30
PIECE_MS = 1_500.0


def run(
    seed: int, monkeypatch: pytest.MonkeyPatch, fences_off: tuple[Switch, ...] = ()
) -> tuple[list[Envelope], list[ZnodeTransaction]]:
    """Run a seed with right clocks; return the records of all nodes, node by node, and the transactions."""
    clusters: list[SimulatedCluster] = []

    def keep(cluster: SimulatedCluster) -> SeedJudgement:
        clusters.append(cluster)
        return judge(cluster)

    monkeypatch.setattr("understudy.trials.seeds.seeds.judge", keep)
    plan = structs.replace(draw_plan(seed, SECONDS, fences_off=fences_off), wrong_clocks=False)
    run_plan(plan)
    (cluster,) = clusters
    records = [decode_record(line) for log in cluster.logs for lines in log.lines.values() for line in lines]
    return records, list(cluster.zookeeper.transactions)


def judged(records: Iterable[Envelope], transactions: list[ZnodeTransaction], from_part: float = 0.0) -> list[str]:
    """Judge a run piece by piece, as it would be read; return what the first bad piece violates.

    Args:
        from_part: after which part of the run the checks of logs begin.
    """
    records = list(records)
    first = min(records, key=lambda record: record.mono_ms)
    epoch_ms = first.wall_ms - first.mono_ms  # no fault has set a clock yet
    ends_ms = max(*(record.mono_ms for record in records), transactions[-1].time_ms - epoch_ms)
    checks = RunningChecks(
        lambda until_ms: (each for each in transactions if each.time_ms <= until_ms),
        epoch_ms + ends_ms * from_part if from_part else 0.0,
    )
    taken_ms = -1.0
    while taken_ms < ends_ms:
        until_ms = taken_ms + PIECE_MS
        checks.advance(
            [each for each in transactions if taken_ms < each.time_ms - epoch_ms <= until_ms],
            [record for record in records if taken_ms < record.mono_ms <= until_ms],
            epoch_ms + until_ms,
        )
        taken_ms = until_ms
        if found := checks.violations(with_end=True):
            return [str(violation) for violation in found]
    assert checks.records == len(records)
    assert checks.transactions == len(transactions)
    return []


@pytest.mark.parametrize("seed", [3, 4, 8, 52])
def test_a_good_run_is_good_at_every_moment_and_in_every_window(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_checks, "WINDOW_MS", 4_000.0)
    records, transactions = run(seed, monkeypatch)
    assert judged(records, transactions) == []


def test_checks_of_logs_may_begin_in_the_middle_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_checks, "WINDOW_MS", 7_000.0)
    records, transactions = run(5, monkeypatch)
    assert judged(records, transactions, 0.5) == []


def test_a_run_without_a_fix_is_stopped_in_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_checks, "WINDOW_MS", 12_000.0)
    records, transactions = run(3, monkeypatch, fences_off=(SWITCHES["zk.controller-epoch"],))
    assert any(found.startswith(("C", "P", "R")) for found in judged(records, transactions))


def test_every_check_runs_either_in_windows_or_from_the_beginning() -> None:
    assert {check.id for check in LOG_CHECKS} | {check.id for check in OTHER_CHECKS} >= {"C1", "P1", "R1", "R11", "L6"}
    assert not {check.id for check in LOG_CHECKS} & {check.id for check in OTHER_CHECKS}


def test_after_a_gap_in_a_sequence_the_run_cannot_be_judged_and_is_not_violated() -> None:
    checks = RunningChecks(lambda until_ms: (), 0.0)
    checks.sequence("broker-1", 1, 1, "a")
    checks.sequence("broker-1", 1, 2, "a")
    checks.sequence("broker-1", 2, 1, "b")
    assert checks.unjudged() == ""
    checks.sequence("broker-1", 2, 3, "b")
    assert checks.unjudged() == "records are missing: broker-1 incarnation 2 has record 3 after 1 (b)"
    history = History()
    queued = EventQueued(event_id=1, event="Startup")
    started = EventStarted(event_id=2, event="TopicChange", queued_ms=0.0)
    history.log(1, queued, started, incarnation=2)
    history.log(2, queued, started)
    checks.advance([], history.records["broker-1"], 10.0)
    assert checks.violations(with_end=True) == [], "the event that was queued as 2 may be in the gap"
    checks.advance([], history.records["broker-2"], 20.0)
    assert [each.check for each in checks.violations(with_end=True)] == ["C7"], "nothing is missing of broker 2"


def test_a_failed_task_is_a_violation_with_its_place() -> None:
    history = History()
    history.log(2, TaskFailed(task="fetcher", error="ValueError: 3"), at_ms=5.0)
    checks = RunningChecks(lambda until_ms: (), 0.0)
    checks.advance([], history.records["broker-2"], 10.0)
    (violation,) = checks.violations(with_end=False)
    assert str(violation).startswith("no-failure violated at broker-2/1#1: broker-2: the task fetcher failed")
