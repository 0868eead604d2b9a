"""`understudy simulate`: run clusters in virtual time, with faults drawn from a seed, and run every check over them."""

from __future__ import annotations

import argparse
from pathlib import Path

from understudy.cli.arguments import Failed, Verbs, claim_for_events, count
from understudy.cli.progress import Progress

SHOWN_FAILURES = 5


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser("simulate", help="run seeds in the simulator, or replay one", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=count, metavar="N", help="replay this seed, and print its schedule of faults")
    which.add_argument("--seeds", type=count, metavar="N", help="run N seeds")
    parser.add_argument("--from", type=count, default=1, metavar="SEED", dest="first", help="the first of --seeds (1)")
    parser.add_argument(
        "--seconds", type=count, default=30, help="simulated seconds per seed, two thirds under faults (30)"
    )
    parser.add_argument("--workers", type=count, default=1, metavar="N", help="processes to run seeds on (1)")
    parser.add_argument(
        "--events", type=Path, metavar="DIR", help="leave the event logs of --seed here, as a cluster of processes does"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    if options.seed is not None:
        return _replay(options.seed, options.seconds, options.events)
    if options.events is not None:
        options.usage_error("--events goes with --seed: one run, one folder")
    return _run_many(range(options.first, options.first + options.seeds), options.seconds, options.workers)


def _replay(seed: int, seconds: int, events: Path | None) -> int:
    from understudy.simulator.seeds import run_seed

    if events is not None:
        claim_for_events(events)
    report = run_seed(seed, seconds, events=events)
    print(report.plan)
    print(report)
    if events is not None:
        print(f"event logs: {events}")
    return 1 if report.problems else 0


def _run_many(seeds: range, seconds: int, workers: int) -> int:
    from understudy.simulator.seeds import run_seeds

    failed = elections = faults = actions = 0
    with Progress(len(seeds), "seeds") as progress:
        for report in run_seeds(seeds, seconds, workers=workers):
            progress.step(failed=bool(report.problems))
            elections += report.judgement.elections
            faults += len(report.schedule.faults)
            actions += len(report.actions)
            if report.problems:
                failed += 1
                if failed <= SHOWN_FAILURES:
                    progress.wipe()
                    print(report, flush=True)
    print(
        f"{len(seeds)} seeds from {seeds.start}, of {seconds} simulated seconds: {faults} faults, "
        f"{actions} client actions, {elections} controller elections, "
        f"{failed} failed; {progress.seconds:.0f} s on {workers} workers"
    )
    if failed:
        raise Failed(f"{failed} of {len(seeds)} seeds failed; each report above names the command that replays it")
    return 0
