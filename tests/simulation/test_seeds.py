"""Seeds: whole clusters under drawn faults, judged by every check."""

from __future__ import annotations

import os
from collections import Counter

from foundation.eventlog.fences import Fence
from understudy.simulator.seeds import run_seeds

SEEDS = range(1, 201)


def test_two_hundred_seeds_break_nothing_and_come_to_rest() -> None:
    fence_hits: Counter[Fence] = Counter()
    failed = []
    elections = 0
    for report in run_seeds(SEEDS, workers=os.cpu_count() or 1):
        fence_hits += report.judgement.fence_hits
        elections += report.judgement.elections
        if report.problems:
            failed.append(str(report))
    assert not failed, f"{len(failed)} of {len(SEEDS)} seeds failed:\n" + "\n".join(failed[:5])
    assert elections > 2 * len(SEEDS), "the faults hardly ever moved the controller"
    assert fence_hits[Fence.ZK_CONTROLLER_EPOCH] > 0, "no deposed controller ever tried to write"
