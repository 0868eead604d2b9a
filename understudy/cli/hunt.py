"""`understudy hunt`: run seeds until one fails, and write down each that does, with a shrunk plan and its events.

A seed is a simulated cluster, random faults and clients; every check judges it. The exit code is 1 if a seed failed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from understudy.cli import arguments
from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.cli.fences import fences_off
from understudy.cli.interruptions import ending_on_signals
from understudy.cli.page_file import try_to_write_page
from understudy.cli.progress import Progress
from understudy.clusters.software import software_commit
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.hunt.failed_seeds import write_down
from understudy.trials.hunt.ledger import NOTHING, BadLedger, HuntLine, add_line, read_ledger
from understudy.trials.hunt.plan_shrinking import MOST_RUNS
from understudy.trials.hunt.seed_tasks import SeedOutcome, outcome_of
from understudy.trials.seeds.seeds import run_seeds

FOLDER = Path("runs") / "hunt"
SECONDS = 60
MOST_FAILURES = 20
_MANY = 10**12
"""Number of seeds that no hunt reaches."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    number = arguments.count
    parser.add_argument("--seeds", type=number, metavar="N", help="stop after N seeds")
    parser.add_argument("--minutes", type=number, metavar="N", help="stop after N minutes")
    parser.add_argument("--failures", type=number, default=MOST_FAILURES, metavar="N", help="stop after N failed seeds")
    parser.add_argument("--from", type=number, default=1, metavar="SEED", dest="first", help="the first seed")
    parser.add_argument(
        "--seconds",
        type=number,
        metavar="N",
        default=SECONDS,
        help="simulated seconds per seed, two thirds under faults",
    )
    parser.add_argument("--workers", type=number, default=1, metavar="N", help="processes to run seeds on")
    parser.add_argument("--spark", metavar="URL", help="run the seeds in Spark at this master, for example local[*]")
    parser.add_argument(
        "--without", metavar="FENCE", help="switch a fence off, to see that a seed finds it; several are joined by +"
    )
    parser.add_argument(
        "--dir", type=Path, default=FOLDER, metavar="DIR", help="write down failed seeds in this folder"
    )
    parser.add_argument(
        "--shrink-runs", type=number, metavar="N", help="how many runs shrinking a failed seed may take (default 200)"
    )
    parser.add_argument("--ledger", type=Path, metavar="FILE", help="add a line about this hunt to a page")


@dataclass(slots=True)
class _HuntTotals:
    """The seeds that were run, and what they have found."""

    first: int
    seeds: int = 0
    failed: int = 0
    elections: int = 0
    faults: int = 0
    acknowledged: int = 0
    seeds_by_kind: dict[str, list[int]] = field(default_factory=dict)
    """The failed seeds by the kind of their problem, in order."""

    @property
    def last(self) -> int:
        return self.first + self.seeds - 1

    def add(self, outcome: SeedOutcome) -> None:
        self.seeds += 1
        self.failed += outcome.failed
        self.elections += outcome.elections
        self.faults += outcome.faults
        self.acknowledged += outcome.acknowledged

    def note(self, kind: str, seed: int) -> None:
        self.seeds_by_kind.setdefault(kind, []).append(seed)

    @property
    def found(self) -> str:
        """The kinds of problem, each with how often and the first seed that has it."""
        words = [
            f"{kind} at seed {seeds[0]}" + (f" and {len(seeds) - 1} more" if len(seeds) > 1 else "")
            for kind, seeds in self.seeds_by_kind.items()
        ]
        return "; ".join(words) or NOTHING


def run(options: argparse.Namespace) -> int:
    if options.seeds is None and options.minutes is None:
        options.usage_error("give --seeds N, --minutes M, or both: when to stop")
    if options.spark is not None and options.workers > 1:
        options.usage_error("--workers goes without --spark: Spark has its own workers")
    if options.ledger is not None and options.without is not None:
        options.usage_error("--ledger goes without --without: what a hunt without a fence finds says nothing of ours")
    fences = fences_off(options.without)
    _check_ledger(options.ledger)
    totals = _HuntTotals(options.first)
    stopped_by: KeyboardInterrupt | Failed | None = None
    with reported_as(Failed, OSError, hint="; nothing more can be written down"):
        options.dir.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        try:
            with ending_on_signals():
                _hunt(options, fences, totals)
        except (KeyboardInterrupt, Failed) as reason:
            # The seeds that were run until then are counted.
            stopped_by = reason
        _end(options, totals, time.monotonic() - began)
    if stopped_by is not None:
        raise stopped_by
    if totals.failed:
        raise Failed(f"{totals.failed} of {totals.seeds} seeds failed; their reports are in {options.dir}")
    return 0


def _hunt(options: argparse.Namespace, fences: tuple[Switch, ...], totals: _HuntTotals) -> None:
    """Run seeds until one of the limits is reached; write down each that fails."""
    ends_at = time.monotonic() + 60 * options.minutes if options.minutes is not None else float("inf")
    with (
        closing(_outcomes(options, fences)) as outcomes,
        Progress(options.seeds, "seeds") as progress,
    ):
        for outcome in outcomes:
            totals.add(outcome)
            progress.step(failed=outcome.failed)
            if outcome.failed:
                progress.wipe()
                _write_down(outcome, options, fences, totals)
            if totals.failed >= options.failures or time.monotonic() >= ends_at:
                break


def _outcomes(options: argparse.Namespace, fences: tuple[Switch, ...]) -> Generator[SeedOutcome]:
    """Run the seeds, on processes or in Spark; their outcomes come in order."""
    if options.spark is not None:
        from understudy.cli.analysis.seeds import hunt_in_spark  # noqa: PLC0415  the extra `spark`

        yield from hunt_in_spark(range(options.first, options.first + (options.seeds or _MANY)), options, fences)
        return
    seeds = count(options.first) if options.seeds is None else range(options.first, options.first + options.seeds)
    with closing(run_seeds(seeds, options.seconds, workers=options.workers, fences_off=fences)) as reports:
        yield from map(outcome_of, reports)


def _write_down(
    outcome: SeedOutcome, options: argparse.Namespace, fences: tuple[Switch, ...], totals: _HuntTotals
) -> None:
    began = time.monotonic()
    written = write_down(
        outcome.seed,
        outcome.seconds,
        options.dir,
        commit=software_commit(),
        fences_off=fences,
        most_runs=options.shrink_runs or MOST_RUNS,
        write_page=try_to_write_page,
    )
    if written is None:
        totals.note("failed on a worker and not here", outcome.seed)
        print(f"seed {outcome.seed} failed on a worker, and not here: is it the same software?\n{outcome.report}")
        return
    totals.note(written.shrunk.kind, outcome.seed)
    print(f"{written} (within {time.monotonic() - began:.0f} s)", flush=True)


def _check_ledger(ledger: Path | None) -> None:
    """Raise `BadInput` if a line could not be added at the end of the hunt."""
    if ledger is None:
        return
    with reported_as(BadInput, BadLedger), reported_as(BadInput, OSError, about="--ledger"):
        read_ledger(ledger)
    if not ledger.parent.is_dir():
        raise BadInput(f"--ledger {ledger}: there is no folder {ledger.parent}")


def _end(options: argparse.Namespace, totals: _HuntTotals, seconds: float) -> None:
    """Print what was run, and add it to the ledger."""
    if not totals.seeds:
        print("no seed was run to its end")
        return
    where = f"in Spark at {options.spark}" if options.spark is not None else f"on {options.workers} workers"
    print(
        f"{totals.seeds} seeds from {totals.first}, of {options.seconds} simulated seconds: {totals.faults} faults, "
        f"{totals.elections} controller elections, {totals.acknowledged} records acknowledged, {totals.failed} failed; "
        f"{seconds:.0f} s {where}; the next seed is {totals.last + 1}"
    )
    if options.ledger is not None:
        line = HuntLine(
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            commit=software_commit(),
            first=totals.first,
            last=totals.last,
            seconds=options.seconds,
            acknowledged=totals.acknowledged,
            elections=totals.elections,
            failed=totals.failed,
            found=totals.found,
        )
        add_line(options.ledger, line)
