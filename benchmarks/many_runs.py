"""Event logs of many simulated runs, and copies of them as further runs."""

from __future__ import annotations

import multiprocessing
import os
from functools import partial
from pathlib import Path

from understudy.trials.seeds.seeds import run_seed

RUNS = int(os.environ.get("UNDERSTUDY_BENCH_RUNS", "150"))
COPIES = int(os.environ.get("UNDERSTUDY_BENCH_COPIES", "10"))
SECONDS = 60
FIRST_SEED = 1_000


def simulate_runs(logs: Path) -> None:
    """Simulate `RUNS` runs of a minute, each into a folder of its own, on all cores."""
    with multiprocessing.Pool() as pool:
        pool.map(partial(_simulate, logs), range(FIRST_SEED, FIRST_SEED + RUNS))


def copy_runs(logs: Path, copy: Path, prefix: str) -> None:
    """Copy the logs of runs, and put `prefix` before the id of each run."""
    for file in logs.rglob("*.jsonl"):
        target = copy / file.relative_to(logs)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes().replace(b'"run":"', b'"run":"' + prefix.encode()))


def _simulate(logs: Path, seed: int) -> None:
    run_seed(seed, SECONDS, events=logs / f"seed-{seed}")
