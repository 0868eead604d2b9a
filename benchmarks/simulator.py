"""Measures the speed of the simulator with random faults, producers, consumers and all checks, on one core and on two.

The references are the project's goals: 50 simulated seconds per second and core, and a thousand seeds of a simulated
minute in ten minutes of two cores, which `run_seeds` is timed for with fewer of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.rows import Row
from understudy.trials.seeds.seeds import SeedReport, run_seed, run_seeds

SEEDS = 20
SECONDS = 30
DRAWN_SECONDS = 60
GOAL_SIMULATED_SECONDS_PER_SECOND = 50
MANY_SEEDS = 100
WORKERS = 2
GOAL_SEEDS = 1_000
GOAL_SEEDS_S = 600


def run(seeds: int = SEEDS, seconds: int = SECONDS, many_seeds: int = MANY_SEEDS) -> list[Row]:
    goal_ms = 1_000 / GOAL_SIMULATED_SECONDS_PER_SECOND
    large, took_large = _timed(run_seed(seed, seconds, brokers=5, partitions=6) for seed in range(1, seeds + 1))
    drawn, took_drawn = _timed(run_seed(seed, DRAWN_SECONDS) for seed in range(1, seeds + 1))
    without, took_without = _timed(run_seed(seed, DRAWN_SECONDS, groups=False) for seed in range(1, seeds + 1))
    messages = sum(report.messages for report in large)
    began = time.monotonic()
    many = list(run_seeds(range(1, many_seeds + 1), DRAWN_SECONDS, workers=WORKERS))
    took_many = time.monotonic() - began
    return [
        Row(
            "a simulated second of 5 brokers and 6 partitions, all checks, ms",
            took_large / (seeds * seconds) * 1e3,
            goal_ms,
            1.0,
        ),
        Row(
            f"a message ({messages / (seeds * seconds):.0f} per simulated second), everything included, µs",
            took_large / messages * 1e6,
            None,
            None,
        ),
        Row(
            "a simulated second as seeds draw it, without groups and compaction, ms",
            took_without / (seeds * DRAWN_SECONDS) * 1e3,
            goal_ms,
            1.0,
        ),
        Row(
            "a simulated second as seeds draw it, groups and compaction too, ms",
            took_drawn / (seeds * DRAWN_SECONDS) * 1e3,
            goal_ms,
            1.0,
        ),
        Row(
            f"{GOAL_SEEDS:,} seeds x {DRAWN_SECONDS} s on {WORKERS} cores, from {many_seeds}, s",
            took_many / many_seeds * GOAL_SEEDS,
            GOAL_SEEDS_S,
            1.0,
        ),
        Row(
            "seeds that failed", sum(bool(report.problems) for report in (*large, *drawn, *without, *many)), None, None
        ),
    ]


def _timed(reports: Iterable[SeedReport]) -> tuple[list[SeedReport], float]:
    """Return the reports, and the processor time that they took."""
    began = time.process_time()
    found = list(reports)
    return found, time.process_time() - began
