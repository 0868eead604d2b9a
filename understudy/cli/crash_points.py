"""`understudy crash-points`: strike the controller at each named point of what it does, in the simulator, and see it
end well.

One row for each point of a procedure, one column for each way to strike. `3` stands for three strikes that all ended as
the run in which nobody was struck, `3 (2)` for three after two of which the old controller was refused at a fence; `!`
marks those that ended otherwise.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.cli.arguments import BadInput, Failed, Verbs, claim_for_events, count
from understudy.cli.progress import Progress

if TYPE_CHECKING:
    from understudy.simulator.crash_points import Outcome, Peace
    from understudy.simulator.procedures import Procedure

SHOWN_FAILURES = 5
HOWS = ("kill", "kill-expire", "bounce", "zombie", "depose")
"""The names of `crash_points.How`."""


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "crash-points",
        help="strike the controller at each point of what it does, in the simulator",
        description=__doc__,
    )
    parser.add_argument("--procedure", metavar="NAME", help="only this one (all)")
    parser.add_argument("--how", choices=HOWS, help="only this way (all)")
    parser.add_argument(
        "--at", metavar="POINT/N", help="only where a controller reaches POINT for the N-th time (everywhere)"
    )
    parser.add_argument("--workers", type=count, default=1, metavar="N", help="processes to work on (1)")
    parser.add_argument(
        "--events", type=Path, metavar="DIR", help="leave the event logs of one strike here, as a real run does"
    )
    parser.set_defaults(run=run, usage_error=parser.error)


def run(options: argparse.Namespace) -> int:
    procedures = _procedures(options.procedure)
    if options.at is not None:
        if options.procedure is None or options.how is None:
            options.usage_error("--at goes with --procedure and --how")
        return _strike_once(procedures[0], options.at, options.how, options.events)
    if options.events is not None:
        options.usage_error("--events goes with --procedure, --at and --how: one run, one folder")
    return _strike_everywhere(procedures, (options.how,) if options.how else HOWS, options.workers)


def _procedures(name: str | None) -> tuple[Procedure, ...]:
    from understudy.simulator.procedures import PROCEDURES

    found = tuple(procedure for procedure in PROCEDURES if name in (None, procedure.name))
    if not found:
        known = ", ".join(procedure.name for procedure in PROCEDURES)
        raise BadInput(f"--procedure {name}: there is no such procedure; known are {known}")
    return found


def _strike_once(procedure: Procedure, at: str, how: str, events: Path | None) -> int:
    from understudy.simulator.crash_points import How, play_in_peace, strike

    peace = play_in_peace(procedure)
    passing = next((passing for passing in peace.passed if str(passing) == at), None)
    if passing is None:
        passed = ", ".join(map(str, peace.passed))
        raise BadInput(f"--at {at}: {procedure.name} does not pass there; it passes {passed}")
    if events is not None:
        claim_for_events(events)
    outcome = strike(procedure, peace, passing, How(how), events=events)
    print(outcome)
    for left in outcome.left_as_in_kafka:
        print(f"  {left.what}, as in Kafka: {left.reason}")
    if events is not None:
        print(f"event logs: {events}")
    return 1 if outcome.problems else 0


def _strike_everywhere(procedures: tuple[Procedure, ...], hows: tuple[str, ...], workers: int) -> int:
    from understudy.simulator.crash_points import How, play_all_in_peace, strike_all

    peaces = play_all_in_peace(procedures)
    for procedure, peace in zip(procedures, peaces, strict=True):
        if peace.problems:
            raise Failed(f"{procedure.name} does not end well even if nobody is struck: {'; '.join(peace.problems)}")
    outcomes = []
    with Progress(sum(len(peace.passed) for peace in peaces) * len(hows), "strikes") as progress:
        for outcome in strike_all(procedures, peaces, [How(how) for how in hows], workers=workers):
            outcomes.append(outcome)
            progress.step(failed=bool(outcome.problems))
    for line in _table(procedures, peaces, outcomes, hows):
        print(line)
    failed = [outcome for outcome in outcomes if outcome.problems]
    for outcome in failed[:SHOWN_FAILURES]:
        print(outcome)
    if failed:
        raise Failed(
            f"{len(failed)} of {len(outcomes)} strikes did not end well; each report above names the command for it"
        )
    return 0


def _table(
    procedures: Iterable[Procedure], peaces: Iterable[Peace], outcomes: list[Outcome], hows: tuple[str, ...]
) -> Iterator[str]:
    by_cell: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        by_cell.setdefault((outcome.procedure, outcome.passing.point, outcome.how.value), []).append(outcome)
    yield f"{'procedure and point':<40}" + "".join(f"{how:>13}" for how in hows)
    for procedure, peace in zip(procedures, peaces, strict=True):
        yield procedure.name
        for point in dict.fromkeys(passing.point for passing in peace.passed):
            yield f"  {point:<38}" + "".join(f"{_cell(by_cell[procedure.name, point, how]):>13}" for how in hows)
    left = Counter((outcome.procedure, left.reason) for outcome in outcomes for left in outcome.left_as_in_kafka)
    if left:
        yield "left behind, as in Kafka:"
        yield from (f"  {strikes:4d} times by {name}: {reason}" for (name, reason), strikes in left.items())
    bad = sum(bool(outcome.problems) for outcome in outcomes)
    fenced = sum(bool(outcome.fenced) for outcome in outcomes)
    yield (
        f"{len(outcomes)} strikes at {len({(o.procedure, o.passing) for o in outcomes})} points of "
        f"{len(list(procedures))} "
        f"procedures: {len(outcomes) - bad} ended as in peace, {bad} did not; after {fenced} an old "
        "controller was refused"
    )


def _cell(outcomes: list[Outcome]) -> str:
    fenced = sum(bool(outcome.fenced) for outcome in outcomes)
    bad = sum(bool(outcome.problems) for outcome in outcomes)
    return f"{len(outcomes)}" + (f" ({fenced})" if fenced else "") + ("!" * bool(bad))
