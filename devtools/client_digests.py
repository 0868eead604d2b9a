"""Prints the digest of each seed of a simulated test: equal runs have the same.

    python -m devtools.client_digests examples/simulated/test_producer.py:test_name --seeds 1000

Run it with two values of PYTHONHASHSEED, with two versions of Python or on two machines, and compare what it prints.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from multiprocessing import spawn
from pathlib import Path

from understudy.testing.simulated_tests.workers.plain_worker import Target
from understudy.testing.simulated_tests.workers.pool import Pool, usual_workers
from understudy.testing.simulated_tests.workers.runs import Result
from understudy.testing.simulated_tests.workers.search import first_failure
from understudy.testing.simulated_tests.workers.slots import Begin


def results(file: Path, name: str, seeds: range, workers: int) -> list[Result]:
    """Run all seeds of a test, and return their results in order."""
    preparation = spawn.get_preparation_data("client digests")
    preparation.pop("authkey", None)
    preparation = {key: value for key, value in preparation.items() if not key.startswith("init_main")}
    target = Target(f"digests_of_{file.stem}", str(file.resolve()), name, call=pickle.dumps(((), {})))
    pool = Pool("plain", lambda _: {"preparation": preparation})
    found: list[Result] = []
    left = list(seeds)
    try:
        slots = pool.slots(workers, Begin(target))
        while left:
            failure = first_failure(slots, left, found)
            done = {result.seed for result in found} | ({failure.result.seed} if failure is not None else set())
            if failure is not None:
                found.append(failure.result)
            left = [seed for seed in left if seed not in done]
    finally:
        pool.close()
    return sorted(found, key=lambda result: result.seed)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="print the digest of each seed of a simulated test")
    parser.add_argument("test", metavar="FILE:NAME")
    parser.add_argument("--seeds", type=int, default=20, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--workers", type=int, default=usual_workers(1_000, None), metavar="N")
    given = parser.parse_args()
    file, _, name = given.test.rpartition(":")
    began = time.monotonic()
    found = results(Path(file), name, range(given.first, given.first + given.seeds), given.workers)
    for result in found:
        shown = result.death if result.outcome is None else f"{result.outcome.digest} {result.outcome.callbacks}"
        print(result.seed, "fails " if result.has_failed else "passes", shown)
    virtual_s = sum(result.outcome.virtual_s for result in found if result.outcome is not None)
    print(f"{virtual_s:.0f} virtual seconds in {time.monotonic() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
