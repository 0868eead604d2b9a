"""The same seed gives the same event logs, byte for byte, whatever the hash seed of the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.shares import at_night

_PROGRAM = """
import sys
from understudy.trials.seeds.seeds import run_seed
for seed in map(int, sys.argv[1:]):
    report = run_seed(seed, 20)
    print(seed, report.judgement.log_digest, report.callbacks, report.transactions, report.judgement.records)
"""


def _run_seeds(seeds: list[str], hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *seeds],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return ran.stdout


@pytest.mark.parametrize(
    "seeds", [["1", "2"], pytest.param(["3", "4", "5", "6"], marks=at_night("two other seeds run each time"))]
)
def test_a_seed_has_the_same_event_logs_in_any_process(seeds: list[str]) -> None:
    first = _run_seeds(seeds, "0")
    assert len(first.splitlines()) == len(seeds)
    assert len({line.split()[1] for line in first.splitlines()}) == len(seeds), (
        "different seeds have different event logs"
    )
    assert _run_seeds(seeds, "1") == first
    assert _run_seeds(seeds, "4242") == first
