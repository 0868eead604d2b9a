"""Measures the speed of the simulator with 5 brokers, 6 partitions, random faults and all checks, on one core.

The reference is the project's goal: 50 simulated seconds per second, which is two hundred seeds in two minutes.
"""

from __future__ import annotations

import time

from benchmarks.rows import Row
from understudy.simulator.seeds import run_seed

SEEDS = 20
SECONDS = 30
GOAL_SIMULATED_SECONDS_PER_SECOND = 50


def run(seeds: int = SEEDS, seconds: int = SECONDS) -> list[Row]:
    began = time.process_time()
    reports = [run_seed(seed, seconds, brokers=5, partitions=6) for seed in range(1, seeds + 1)]
    took = time.process_time() - began
    simulated = seeds * seconds
    messages = sum(report.messages for report in reports)
    goal_ms = 1_000 / GOAL_SIMULATED_SECONDS_PER_SECOND
    return [
        Row("a simulated second of 5 brokers and 6 partitions, all checks, ms", took / simulated * 1e3, goal_ms, 1.0),
        Row(
            f"a message ({messages / simulated:.0f} per simulated second), everything included, µs",
            took / messages * 1e6,
            None,
            None,
        ),
        Row("seeds that failed", sum(bool(report.problems) for report in reports), None, None),
    ]
