"""Seeds: clusters with random faults and a workload, judged by every check; in batches, for parallel workers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.shares import share_of
from understudy.checks import quorum
from understudy.checks.invariant_checker import ALL_CHECKS
from understudy.checks.leader_agreement import LeaderLog
from understudy.checks.replication import LeaderEpochCachesMatchLogs
from understudy.clusters.findings import Finding, FindingKind
from understudy.clusters.picture import ClusterPicture, PartitionPicture
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.fences import Fence
from understudy.trials.seeds import settling
from understudy.trials.seeds.seeds import run_seed
from understudy.trials.seeds.settling import is_kept_by_first_state, is_kept_by_loss

SEEDS = share_of("seeds")
SECONDS = 60
"""Simulated seconds of each seed in the batches."""
BATCH = 20
FIRST_SEEDS = 2
MOST_SEEDS = 200
"""How many seeds are tried before a fence that is switched off counts as not noticed."""
MIN_CASES = 10
"""How many cases every check must examine in a batch, so that it can find anything."""
NOT_IN_EVERY_BATCH = {FindingKind.PROCESS, FindingKind.REASSIGNMENT, FindingKind.DELETION}
"""Kinds of finding that are examined only if such an operation is in progress while the cluster settles."""

CHECKS = tuple(check for check in ALL_CHECKS if check not in quorum.CHECKS)
"""The checks of a cluster in ZooKeeper mode; the others are for imports of KRaft clusters."""

BATCHES = [pytest.param(first, id=f"{first}-{first + BATCH - 1}") for first in range(BATCH + 1, SEEDS + 1, BATCH)]
FIRST_BATCH = pytest.param(1, id=f"1-{BATCH}", marks=pytest.mark.representative("twenty seeds"))


def test_the_first_seeds_violate_no_check_and_settle() -> None:
    """A few seeds for the fast tests."""
    reports = [run_seed(seed, 10) for seed in range(1, FIRST_SEEDS + 1)]
    failed = [str(report) for report in reports if report.problems]
    assert not failed, "\n".join(failed)


@pytest.mark.timeout(1_800)  # a batch works for a minute of one core, and the machine may be busy with ten other things
@pytest.mark.parametrize("first", [FIRST_BATCH, *BATCHES])
def test_seeds_violate_no_check_and_settle(first: int) -> None:
    reports = [run_seed(seed, SECONDS) for seed in range(first, first + BATCH)]
    failed = [str(report) for report in reports if report.problems]
    assert not failed, f"{len(failed)} of {BATCH} seeds failed:\n" + "\n".join(failed[:5])
    assert sum(report.judgement.elections for report in reports) > 2 * BATCH, (
        "the faults hardly ever changed the controller"
    )
    times_tested = sum((report.judgement.times_tested for report in reports), Counter[str]())
    seldom = {check.id: times_tested[check.id] for check in CHECKS if times_tested[check.id] < MIN_CASES}
    assert not seldom, "checks that examined too few cases"
    examined = sum((report.examined for report in reports), Counter[FindingKind]())
    rarely = {
        kind: examined[kind] for kind in FindingKind if examined[kind] < MIN_CASES and kind not in NOT_IN_EVERY_BATCH
    }
    assert not rarely, "kinds of finding with too few examined cases"


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1_000_092, id="a checkpoint brings back a high watermark of before a loss"),
        pytest.param(1_000_143, id="a follower ends within a batch of a leader that has lost records"),
        pytest.param(1_000_163, id="a leader leads on without what a loss of power took"),
        pytest.param(4_001_953, id="a follower keeps another record in later leader epochs"),
        pytest.param(4_002_646, id="the follower with the other records leads"),
        pytest.param(4_003_723, id="a follower that ends within a batch is the target of a move"),
    ],
)
def test_a_loss_of_power_is_no_violation(seed: int) -> None:
    """Seeds of hunts that failed because a check knew less of such a loss than Kafka allows."""
    report = run_seed(seed, 60, groups=False)
    assert not report.problems, str(report)
    assert any(fault.kind == "lose-power" for fault in report.plan.schedule.faults)


def test_a_run_that_ends_early_excuses_what_a_loss_of_power_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but its early end is reported, though clients have seen the loss."""
    monkeypatch.setattr(settling, "is_kept_by_loss", lambda *_: False)
    (problem,) = run_seed(4_003_723, 60, groups=False).problems
    assert problem.startswith("Unsettled: ")


MOVED = TopicPartition("orders", 0)


def picture_of_a_move(isr: tuple[int, ...] | None, partition_epoch: int = 0) -> ClusterPicture:
    """A partition that moves from broker 1 to broker 3, led by broker 2; without a state if `isr` is None."""
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    state = None
    if isr is not None:
        leadership = LeaderAndIsr(two, 0, tuple(map(BrokerId, isr)), partition_epoch=partition_epoch)
        state = LeaderIsrAndControllerEpoch(leadership, 1)
    moving = ReplicaAssignment((two, three, one), adding_replicas=(three,), removing_replicas=(one,))
    return ClusterPicture(
        controller=one,
        controller_epoch=1,
        brokers={},
        partitions={MOVED: PartitionPicture(assignment=moving, state=state)},
    )


@pytest.mark.parametrize(
    ("kind", "isr", "lost", "is_kept"),
    [
        pytest.param(FindingKind.UNDER_REPLICATED, (2,), True, True, id="a follower stays outside the ISR"),
        pytest.param(FindingKind.REASSIGNMENT, (2,), True, True, id="a move waits for it"),
        pytest.param(FindingKind.REASSIGNMENT, (2, 3), True, False, id="all targets of a move are in sync"),
        pytest.param(FindingKind.UNDER_REPLICATED, (2,), False, False, id="nothing was lost"),
        pytest.param(FindingKind.REASSIGNMENT, (2,), False, False, id="a move waits, and nothing was lost"),
        pytest.param(FindingKind.METADATA, (2,), True, False, id="something else is wrong with the partition"),
    ],
)
def test_what_a_loss_of_power_keeps_from_settling(
    kind: FindingKind, isr: tuple[int, ...], lost: bool, is_kept: bool
) -> None:
    left = Finding(kind=kind, message="left", partition=MOVED)
    assert is_kept_by_loss(left, picture_of_a_move(isr), {("orders", 0)} if lost else {("orders", 1)}) == is_kept


@pytest.mark.parametrize(
    ("kind", "isr", "partition_epoch", "is_kept"),
    [
        pytest.param(FindingKind.REASSIGNMENT, (2, 3, 1), 0, True, id="the first state has every target in sync"),
        pytest.param(FindingKind.REASSIGNMENT, (2, 1), 0, False, id="it lacks a target, which joins"),
        pytest.param(FindingKind.REASSIGNMENT, (2, 3, 1), 1, False, id="the ISR has changed since"),
        pytest.param(FindingKind.REASSIGNMENT, None, 0, False, id="there is no state"),
        pytest.param(FindingKind.METADATA, (2, 3, 1), 0, False, id="something else is wrong with the partition"),
    ],
)
def test_what_a_first_state_keeps_from_settling(
    kind: FindingKind, isr: tuple[int, ...] | None, partition_epoch: int, is_kept: bool
) -> None:
    left = Finding(kind=kind, message="left", partition=MOVED)
    assert is_kept_by_first_state(left, picture_of_a_move(isr, partition_epoch)) == is_kept


def test_a_move_may_wait_after_the_first_state_of_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 4004939: a topic is created while its brokers are away, and moved before it has a state."""
    assert not run_seed(4_004_939, 60, groups=False).problems
    monkeypatch.setattr(settling, "is_kept_by_first_state", lambda *_: False)
    (problem,) = run_seed(4_004_939, 60, groups=False).problems
    assert "clicks-1 is still being reassigned" in problem


def test_a_partition_gets_its_first_state_when_its_only_replica_is_back() -> None:
    """Seed 4016951: a topic is created while the broker of a partition stops, and that broker stays away (L8)."""
    assert not run_seed(4_016_951, 60).problems


def test_the_epochs_of_a_log_may_descend_where_a_leader_led_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 4005267: after a loss of power an epoch begins again, far below where it began in the next leader's log."""
    assert not run_seed(4_005_267, 60, groups=False).problems
    monkeypatch.setattr(LeaderEpochCachesMatchLogs, "is_kept_by_loss", lambda *_: False)
    (problem,) = run_seed(4_005_267, 60, groups=False).problems
    assert problem.startswith("R7 ")
    assert "appended a batch of epoch 3 after one of epoch 8" in problem


def test_a_leader_may_lack_epochs_in_its_cache_where_those_of_its_log_descend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 4021406: epochs 3, 4 and 3 again follow each other in a log, whose cache has only the second epoch 3."""
    assert not run_seed(4_021_406, 60).problems
    monkeypatch.setattr(LeaderLog, "_dropped_parts", lambda *_: ())
    problems = run_seed(4_021_406, 60).problems
    assert [problem.split()[0] for problem in problems] == ["R3a", "R3b", "R9"]


def test_what_is_about_no_partition_is_not_kept() -> None:
    picture = ClusterPicture(controller=None, controller_epoch=1, brokers={}, partitions={})
    left = Finding(kind=FindingKind.CONTROLLER, message="no broker owns /controller")
    assert not is_kept_by_loss(left, picture, {("orders", 0)})
    assert not is_kept_by_first_state(left, picture)


@pytest.mark.parametrize(
    ("fence", "check"),
    [
        (Fence.ZK_CONTROLLER_EPOCH, "C3 "),
        (Fence.BROKER_CONTROLLER_EPOCH, "C4a "),
        (Fence.BROKER_EPOCH, "C4b "),
        (Fence.FETCH_LEADER_EPOCH, "R8 "),
    ],
    ids=lambda value: value.value if isinstance(value, Fence) else value.strip(),
)
def test_a_check_is_violated_where_a_fence_is_switched_off(fence: Fence, check: str) -> None:
    """Without the fence, the check that belongs to it is violated by one of the seeds."""
    for seed in range(1, MOST_SEEDS + 1):
        report = run_seed(seed, fences_off=(fence,))
        if any(problem.startswith(check) for problem in report.problems):
            assert report.judgement.fence_hits[fence] > 0 or fence is Fence.ZK_CONTROLLER_EPOCH
            return
    pytest.fail(f"{MOST_SEEDS} seeds without {fence.value}, and check {check}was never violated")
