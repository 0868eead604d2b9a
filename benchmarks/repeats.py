"""Measures what a seed is worth: whether it repeats in any process, and how soon a failing one is reported.

Each seed runs under three hash seeds of Python; its event logs have to have the same digest under all three. The other
row is a whole command, `understudy simulate --seed`, of a seed that fails with a fence switched off: from its start to
the report with the violated check and the command that replays it.

UNDERSTUDY_BENCH_REPEATS (200) sets the number of seeds, of 60 simulated seconds each.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Final

from benchmarks.rows import Row

SEEDS = int(os.environ.get("UNDERSTUDY_BENCH_REPEATS", "200"))
SECONDS: Final = 60
HASH_SEEDS: Final = ("0", "1", "4242")
FENCE: Final = "broker.controller-epoch"
GOAL_REPORT_S: Final = 10.0
ROUNDS: Final = 3
_SEARCHED: Final = 40

_DIGESTS: Final = """
import sys
from understudy.trials.seeds.seeds import run_seeds
for report in run_seeds(range(1, int(sys.argv[1]) + 1), int(sys.argv[2]), workers=2):
    print(report.plan.seed, report.judgement.log_digest)
"""


def run() -> list[Row]:
    """The seeds whose logs differ, and the median seconds from a command to the report of a failed seed."""
    digests = [_digests(hash_seed) for hash_seed in HASH_SEEDS]
    differing = sum(len(set(of_one_seed)) > 1 for of_one_seed in zip(*digests, strict=True))
    failing = _first_failing()
    took = statistics.median(_report(failing) for _ in range(ROUNDS))
    return [
        Row(f"of {SEEDS} seeds, those whose logs differ under {len(HASH_SEEDS)} hash seeds", differing, None, None),
        Row("a failing seed, command to report, s; reference: the goal", took, GOAL_REPORT_S, 1.0),
    ]


def _digests(hash_seed: str) -> list[str]:
    """A line per seed: its number, and the digest of its event logs."""
    command = [sys.executable, "-c", _DIGESTS, str(SEEDS), str(SECONDS)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def _first_failing() -> int:
    for seed in range(1, _SEARCHED + 1):
        if _simulate(seed).returncode:
            return seed
    raise SystemExit(f"none of {_SEARCHED} seeds fails without {FENCE}")


def _report(seed: int) -> float:
    began = time.monotonic()
    ran = _simulate(seed)
    took = time.monotonic() - began
    assert "replay it:" in ran.stdout, ran.stdout
    return took


def _simulate(seed: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "understudy.cli.main", "simulate", "--seed", str(seed)]
    command += ["--seconds", str(SECONDS), "--without", FENCE]
    return subprocess.run(command, capture_output=True, text=True, check=False)
