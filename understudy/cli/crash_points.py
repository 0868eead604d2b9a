"""`understudy crash-points`: inject faults into a simulated controller at each named point of its procedures.

The table has a row for each point and a column for each kind of fault. `3` stands for three runs with a fault that all
ended in the same state as the run without one. `3 (2)` means that in two of these a request or write of the old
controller was refused at a fence. `!` marks a cell with a run that ended in another state.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from understudy.cli.arguments import BadInput, Failed, add_events_folder, claim_for_events, count
from understudy.cli.progress import Progress
from understudy.foundation.cluster.grouping import grouped
from understudy.trials.seeds.crash_points import (
    ControllerFault,
    CrashPointOutcome,
    FaultFreeRun,
    run_all_with_faults,
    run_with_fault,
    run_without_fault,
)
from understudy.trials.seeds.procedures import PROCEDURES, Procedure

SHOWN_FAILURES = 5
FAULTS = tuple(fault.value for fault in ControllerFault)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--procedure", metavar="NAME", help="only this procedure (default all)")
    parser.add_argument("--how", choices=FAULTS, help="only this fault (default all)")
    parser.add_argument(
        "--at", metavar="POINT/N", help="only when a controller reaches POINT for the N-th time (default each time)"
    )
    parser.add_argument("--workers", type=count, default=1, metavar="N", help="processes to work on")
    add_events_folder(parser, "--at")


def run(options: argparse.Namespace) -> int:
    procedures = _procedures(options.procedure)
    if options.at is not None:
        if options.procedure is None or options.how is None:
            options.usage_error("--at goes with --procedure and --how")
        return _run_once(procedures[0], options.at, options.how, options.dir)
    if options.dir is not None:
        options.usage_error("--dir goes with --procedure, --at and --how: one run, one folder")
    return _run_all(procedures, (options.how,) if options.how else FAULTS, options.workers)


def _procedures(name: str | None) -> tuple[Procedure, ...]:
    found = tuple(procedure for procedure in PROCEDURES if name in (None, procedure.name))
    if not found:
        known = ", ".join(procedure.name for procedure in PROCEDURES)
        raise BadInput(f"--procedure {name}: there is no such procedure; known are {known}")
    return found


def _run_once(procedure: Procedure, at: str, fault: str, events: Path | None) -> int:
    fault_free = run_without_fault(procedure)
    target = next((occurrence for occurrence in fault_free.reached if str(occurrence) == at), None)
    if target is None:
        reached = ", ".join(map(str, fault_free.reached))
        raise BadInput(f"--at {at}: {procedure.name} does not reach that point; it reaches {reached}")
    if events is not None:
        claim_for_events(events)
    outcome = run_with_fault(procedure, fault_free, target, ControllerFault(fault), events=events)
    print(outcome)
    for left in outcome.left_as_in_kafka:
        print(f"  {left.what}, as in Kafka: {left.reason}")
    if events is not None:
        print(f"event logs: {events}")
    return 1 if outcome.problems else 0


def _run_all(procedures: tuple[Procedure, ...], faults: tuple[str, ...], workers: int) -> int:
    fault_free_runs = [run_without_fault(procedure) for procedure in procedures]
    for procedure, fault_free in zip(procedures, fault_free_runs, strict=True):
        if fault_free.problems:
            raise Failed(f"{procedure.name} failed although no fault was injected: {'; '.join(fault_free.problems)}")
    outcomes = []
    kinds = [ControllerFault(fault) for fault in faults]
    with Progress(sum(len(fault_free.reached) for fault_free in fault_free_runs) * len(faults), "runs") as progress:
        for outcome in run_all_with_faults(procedures, fault_free_runs, kinds, workers=workers):
            outcomes.append(outcome)
            progress.step(failed=bool(outcome.problems))
    for line in _table(procedures, fault_free_runs, outcomes, faults):
        print(line)
    failed = [outcome for outcome in outcomes if outcome.problems]
    for outcome in failed[:SHOWN_FAILURES]:
        print(outcome)
    if failed:
        raise Failed(
            f"{len(failed)} of {len(outcomes)} runs failed; each report above names the command that repeats it"
        )
    return 0


def _table(
    procedures: Iterable[Procedure],
    fault_free_runs: Iterable[FaultFreeRun],
    outcomes: list[CrashPointOutcome],
    faults: tuple[str, ...],
) -> Iterator[str]:
    by_cell = grouped(((each.procedure, each.at.point, each.fault.value), each) for each in outcomes)
    yield f"{'procedure and point':<40}" + "".join(f"{fault:>13}" for fault in faults)
    for procedure, fault_free in zip(procedures, fault_free_runs, strict=True):
        yield procedure.name
        for point in dict.fromkeys(occurrence.point for occurrence in fault_free.reached):
            cells = (_cell(by_cell[procedure.name, point, fault]) for fault in faults)
            yield f"  {point:<38}" + "".join(f"{cell:>13}" for cell in cells)
    left = Counter((outcome.procedure, left.reason) for outcome in outcomes for left in outcome.left_as_in_kafka)
    if left:
        yield "left behind, as in Kafka:"
        yield from (f"  {times:4d} times by {name}: {reason}" for (name, reason), times in left.items())
    bad = sum(bool(outcome.problems) for outcome in outcomes)
    fenced = sum(bool(outcome.fenced) for outcome in outcomes)
    yield (
        f"{len(outcomes)} runs with a fault at {len({(o.procedure, o.at) for o in outcomes})} points of "
        f"{len(list(procedures))} procedures: {len(outcomes) - bad} ended as without the fault, {bad} did not; "
        f"in {fenced} an old controller was refused"
    )


def _cell(outcomes: tuple[CrashPointOutcome, ...]) -> str:
    fenced = sum(bool(outcome.fenced) for outcome in outcomes)
    bad = sum(bool(outcome.problems) for outcome in outcomes)
    return f"{len(outcomes)}" + (f" ({fenced})" if fenced else "") + ("!" * bool(bad))
