"""Seeds: whole clusters under drawn faults, judged by every check. In batches, so that test workers can share them."""

from __future__ import annotations

from collections import Counter

import pytest

from foundation.eventlog.fences import Fence
from understudy.checkers.invariant_checker import ALL_CHECKS
from understudy.findings import FindingKind
from understudy.simulator.seeds import run_seed

SEEDS = 200
BATCH = 25
SELDOM = 10
"""A check that is asked less often than this in a batch is not exercised by it."""
UP_TO_CHANCE = {FindingKind.PROCESS, FindingKind.REASSIGNMENT, FindingKind.DELETION}
"""Kinds of finding that are examined only where something is in progress when a cluster is to settle."""

BATCHES = [
    pytest.param(first, marks=() if first == 1 else pytest.mark.slow, id=f"{first}-{first + BATCH - 1}")
    for first in range(1, SEEDS + 1, BATCH)
]


@pytest.mark.parametrize("first", BATCHES)
def test_seeds_break_nothing_and_come_to_rest(first: int) -> None:
    reports = [run_seed(seed) for seed in range(first, first + BATCH)]
    failed = [str(report) for report in reports if report.problems]
    assert not failed, f"{len(failed)} of {BATCH} seeds failed:\n" + "\n".join(failed[:5])
    assert sum(report.judgement.elections for report in reports) > 2 * BATCH, (
        "the faults hardly ever moved the controller"
    )
    judged = sum((report.judgement.judged for report in reports), Counter[str]())
    seldom = {check.id: judged[check.id] for check in ALL_CHECKS if judged[check.id] < SELDOM}
    assert not seldom, "checks that were hardly ever put to the test prove nothing"
    examined = sum((report.examined for report in reports), Counter[FindingKind]())
    rarely = {kind: examined[kind] for kind in FindingKind if examined[kind] < SELDOM and kind not in UP_TO_CHANCE}
    assert not rarely, "nor do these"


@pytest.mark.slow
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
def test_a_fence_that_is_switched_off_is_missed(fence: Fence, check: str) -> None:
    """What the checks are worth: without the fence some seed breaks what the fence is there for."""
    for seed in range(1, SEEDS + 1):
        report = run_seed(seed, fences_off=(fence,))
        if any(problem.startswith(check) for problem in report.problems):
            assert report.judgement.fence_hits[fence] > 0 or fence is Fence.ZK_CONTROLLER_EPOCH
            return
    pytest.fail(f"{SEEDS} seeds without {fence.value}, and {check}was never violated")
