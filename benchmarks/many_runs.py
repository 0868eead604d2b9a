"""Event logs of many simulated runs, and copies of them as further runs."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path

from understudy.trials.seeds.seeds import run_seed

RUNS = int(os.environ.get("UNDERSTUDY_BENCH_RUNS", "150"))
COPIES = int(os.environ.get("UNDERSTUDY_BENCH_COPIES", "10"))
SECONDS = 60
FIRST_SEED = 1_000
_LINES_OF_A_SHORT_LOG = 10
_RUNS_OF_A_FOLDER = 1_000


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


def write_short_runs(logs: Path, count: int) -> None:
    """Write the beginnings of some logs `count` times, a hundred records each time, as runs of their own."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        run_seed(FIRST_SEED, 1, events=Path(folder))
        beginnings = {}
        for file in Path(folder).rglob("*.jsonl"):
            with file.open("rb") as stream:
                beginnings[file.name] = b"".join(islice(stream, _LINES_OF_A_SHORT_LOG))
    for number in range(count):
        run = logs / f"{number // _RUNS_OF_A_FOLDER}" / f"{number}"
        run.mkdir(parents=True)
        for name, content in beginnings.items():
            (run / name).write_bytes(content.replace(b'"run":"', b'"run":"%d-' % number))


def _simulate(logs: Path, seed: int) -> None:
    run_seed(seed, SECONDS, events=logs / f"seed-{seed}")
