"""Draws mutants of single tokens, judges them by tests and seeds, and writes docs/inside/token-mutants.md.

Exits 0 if every survivor has a reason in reasons.yaml, 1 if one has none. Results are kept as they come, so a run that
is interrupted continues where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from devtools.pages.source import ROOT
from devtools.token_mutants.baseline import BESIDE, Baseline, measure
from devtools.token_mutants.page import PAGE, page, without_reason
from devtools.token_mutants.results import Result, add_result, current, drawn, keep_results, read_reasons, read_results
from devtools.token_mutants.sites import ROOMS, Mutant, files
from devtools.token_mutants.workshop import Workshop, first_workshop

_BASELINE = ROOT / ".token-mutants" / "baseline.json"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.only is not None and not files(ROOT, options.only):
        sys.exit(
            f"--only {options.only}: no module of {' or '.join(ROOMS)} begins with it; give a path such as {ROOMS[0]}"
        )
    keep_results(current(read_results().values(), ROOT))
    if not options.page:
        _run(_chosen(options), options)
    return _write_page()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devtools.token_mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, metavar="N", help="judge the first N mutants drawn (200)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what the mutants are drawn by (1)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="copies of the repository to work in (1)")
    parser.add_argument("--only", metavar="PATH", help="draw from the modules whose paths begin so")
    parser.add_argument("--again", action="store_true", help="judge the survivors that have no reason, and draw none")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument(
        "--longest-test", type=float, default=3, metavar="S", help="leave out tests that take longer; 0 for none (3)"
    )
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many seeds judge what tests do not (5)")
    parser.add_argument("--seconds", type=int, default=30, metavar="S", help="simulated seconds of each seed (30)")
    return parser


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    """The mutants to judge: those without a result, or again the survivors without a reason."""
    results = read_results()
    if options.again:
        left = without_reason(results.values(), read_reasons())
        return [each.mutant for each in left if each.mutant.file.startswith(options.only or "")]
    return [each for each in drawn(ROOT, options.count, options.seed, options.only) if each.key not in results]


def _run(mutants: Sequence[Mutant], options: argparse.Namespace) -> None:
    """Judge the mutants on as many workers as asked for, and keep each result at once."""
    if not mutants:
        return
    print(f"{len(mutants)} mutants to judge", flush=True)
    with first_workshop(ROOT) as first:
        first.warm([*(f"tests/{room}" for room in ROOMS), *BESIDE])
        baseline = measure(first, ROOMS, _BASELINE)
        folders = [first.folder.parent / str(number) for number in range(1, options.workers)]
        workshops = [first, *map(first.copy, folders)]
        free: SimpleQueue[Workshop] = SimpleQueue()
        for workshop in workshops:
            free.put(workshop)
        with ThreadPoolExecutor(options.workers) as pool:
            judging = [pool.submit(_judge, mutant, free, baseline, options) for mutant in mutants]
            try:
                for number, each in enumerate(as_completed(judging), 1):
                    result = each.result()
                    add_result(result)
                    verdict = result.verdict
                    print(f"{number}/{len(mutants)} {verdict.step:8} {result.mutant}  {verdict.by}", flush=True)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for workshop in workshops:
                    workshop.stop()
                raise


def _judge(mutant: Mutant, free: SimpleQueue[Workshop], baseline: Baseline, options: argparse.Namespace) -> Result:
    tests = baseline.tests_for(mutant, options.longest_test or float("inf"))
    workshop = free.get()
    try:
        measured_s = sum(test.seconds for test in tests)
        seeds = range(1, options.seeds + 1)
        return Result(mutant, workshop.judge(mutant, [test.test for test in tests], measured_s, seeds, options.seconds))
    finally:
        free.put(workshop)


def _write_page() -> int:
    keep_results(current(read_results().values(), ROOT))
    results, reasons = read_results(), read_reasons()
    PAGE.write_text(page(results.values(), reasons), encoding="utf-8")
    killed = sum(not each.has_survived for each in results.values())
    left = without_reason(results.values(), reasons)
    print(f"{killed} of {len(results)} mutants killed; written: {Path(PAGE).relative_to(ROOT)}")
    for each in left:
        print(f"survived without a reason: {each.mutant}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
