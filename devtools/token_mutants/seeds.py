"""`python -m devtools.token_mutants.seeds FIRST STOP SECONDS` runs seeds until one fails, and prints its violations."""

from __future__ import annotations

import sys

from understudy.trials.seeds.seeds import run_seed


def main(first: int, stop: int, seconds: int) -> int:
    """Return 0 if every seed holds, 1 if one does not; a defect that raises ends with its traceback."""
    for seed in range(first, stop):
        problems = run_seed(seed, seconds).problems
        if problems:
            print(f"seed {seed}: {' '.join(problems[0].split())}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
