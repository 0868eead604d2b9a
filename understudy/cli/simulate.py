"""`understudy simulate`: run clusters in virtual time, with faults drawn from a seed, and run every check over them."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from understudy.cli.arguments import (
    BadInput,
    Failed,
    add_events_folder,
    claim_for_events,
    count,
    path_or_url,
    reported_as,
)
from understudy.cli.fences import fences_off
from understudy.cli.page_file import try_to_write_page
from understudy.cli.progress import Progress
from understudy.history.reading.reader import read
from understudy.history.witness import link_to_problem
from understudy.trials.hunt.failed_seeds import PAGE
from understudy.trials.hunt.plan_files import BadSeedPlan, read_plan
from understudy.trials.hunt.plan_shrinking import kind_of, main_problem
from understudy.trials.hunt.seed_tasks import SeedOutcome, outcome_of
from understudy.trials.seeds.seed_plans import SeedPlan, draw_plan
from understudy.trials.seeds.seeds import SeedReport, run_plan, run_seeds

SHOWN_FAILURES = 5
SECONDS = 30
CLOCKS = {"own": True, "one": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=count, metavar="N", help="replay this seed, and print its schedule of faults")
    which.add_argument("--seeds", type=count, metavar="N", help="run N seeds")
    which.add_argument("--plan", type=Path, metavar="FILE", help="replay a plan that `understudy hunt` has shrunk")
    parser.add_argument("--from", type=count, default=1, metavar="SEED", dest="first", help="the first of --seeds")
    parser.add_argument(
        "--seconds",
        type=count,
        metavar="N",
        help=f"simulated seconds per seed, two thirds under faults (default {SECONDS})",
    )
    parser.add_argument("--workers", type=count, default=1, metavar="N", help="processes to run seeds on")
    add_events_folder(parser, "--seed or --plan")
    parser.add_argument(
        "--no-groups",
        action="store_true",
        help="with --seed: the seed without consumer groups and compaction, as seeds once were",
    )
    parser.add_argument(
        "--clocks",
        choices=CLOCKS,
        help="own: each node has a monotonic clock of its own; one: all share one; default: as drawn, own in a tenth",
    )
    parser.add_argument("--without", metavar="FENCE", help="switch a fence off; several are joined by +")
    parser.add_argument("--spark", metavar="URL", help="run --seeds in Spark at this master, for example local[*]")
    parser.add_argument(
        "--lake",
        type=path_or_url,
        metavar="DIR",
        help="with --spark: keep a ledger of the seeds and the records of failed ones in this lake; skip seeds in it",
    )
    parser.add_argument("--keep-all", action="store_true", help="with --lake: keep the records of all seeds")


def run(options: argparse.Namespace) -> int:
    if options.lake is not None and options.spark is None:
        options.usage_error("--lake goes with --spark; `understudy ingest` takes the event logs of --seed")
    if options.keep_all and options.lake is None:
        options.usage_error("--keep-all goes with --lake")
    if options.spark is not None and options.without is not None:
        options.usage_error("--without goes without --spark; `understudy hunt --spark` takes both")
    if options.no_groups and options.seed is None:
        options.usage_error("--no-groups goes with --seed")
    if options.clocks is not None and options.spark is not None:
        options.usage_error("--clocks goes without --spark")
    if options.plan is not None and (options.seconds, options.without, options.clocks) != (None, None, None):
        options.usage_error("--seconds, --without and --clocks are part of the plan; change them in the file")
    options.seconds = options.seconds or SECONDS
    if options.seed is not None or options.plan is not None:
        if options.spark is not None:
            options.usage_error("--spark goes with --seeds")
        return _replay(options)
    if options.dir is not None:
        options.usage_error(
            "--dir goes with --seed or --plan: one run, one folder; --spark and --lake keep the logs of many"
        )
    seeds = range(options.first, options.first + options.seeds)
    if options.spark is not None:
        from understudy.cli.analysis.seeds import simulate_in_spark  # noqa: PLC0415  the extra `spark`

        return simulate_in_spark(seeds, options, partial(_summarised, seeds, options.seconds))
    fences = fences_off(options.without)
    reports = run_seeds(
        seeds,
        options.seconds,
        workers=options.workers,
        own_clocks=CLOCKS.get(options.clocks),
        fences_off=fences,
    )
    return _summarised(seeds, options.seconds, map(outcome_of, reports), f"on {options.workers} workers")


def _replay(options: argparse.Namespace) -> int:
    events = options.dir
    plan, violated = _plan(options)
    if events is not None:
        claim_for_events(events)
    try:
        report = replace(run_plan(plan, events=events), plan_file=options.plan)
    except OSError as error:
        raise Failed(f"--dir {events}: {error.strerror or error}; the run is incomplete, give a new folder") from None
    print(report.plan)
    print(report)
    if violated:
        print(_compared(violated, report))
    if events is not None:
        print(f"event logs: {events}")
    if report.problems:
        _print_page(report, events)
    return 1 if report.problems else 0


def _print_page(report: SeedReport, events: Path | None) -> None:
    """Write the page of a failed run to the folder of its logs, and print where the page shows the main problem.

    Args:
        events: None if the run has left no logs.
    """
    if events is None:
        print("add --dir DIR for its event logs and a page that shows the problem")
        return
    page = events / PAGE
    if try_to_write_page(events, page):
        link = link_to_problem(main_problem(report), read([events]).records)
        print(f"see it: {page.absolute().as_uri()}{link}")


def _plan(options: argparse.Namespace) -> tuple[SeedPlan, str]:
    """Draw the plan of --seed, or read --plan; return also what the file says that it violates."""
    if options.plan is None:
        plan = draw_plan(
            options.seed,
            options.seconds,
            groups=not options.no_groups,
            own_clocks=CLOCKS.get(options.clocks),
            fences_off=fences_off(options.without),
        )
        return plan, ""
    with reported_as(BadInput, BadSeedPlan, about="--plan"):
        file = read_plan(options.plan)
    return file.plan, file.violates


def _compared(violated: str, report: SeedReport) -> str:
    """Say whether a run violates what the plan was shrunk for."""
    if violated in map(kind_of, report.problems):
        return f"the plan was saved because it violates {violated}, and it does"
    return f"the plan was saved because it violated {violated}, and it does not: the software has changed since then"


def _summarised(seeds: range, seconds: int, outcomes: Iterable[SeedOutcome], where: str) -> int:
    """Print the reports of failed seeds as they come, and a line about all. Raises `Failed` if one failed."""
    failed = elections = faults = actions = 0
    with Progress(len(seeds), "seeds") as progress:
        for outcome in outcomes:
            progress.step(failed=outcome.failed)
            elections += outcome.elections
            faults += outcome.faults
            actions += outcome.actions
            if outcome.failed:
                failed += 1
                if failed <= SHOWN_FAILURES:
                    progress.wipe()
                    print(outcome.report, flush=True)
    print(
        f"{len(seeds)} seeds from {seeds.start}, of {seconds} simulated seconds: {faults} faults, "
        f"{actions} client actions, {elections} controller elections, "
        f"{failed} failed; {progress.seconds:.0f} s {where}"
    )
    if failed:
        raise Failed(f"{failed} of {len(seeds)} seeds failed; each report above names the command that replays it")
    return 0
