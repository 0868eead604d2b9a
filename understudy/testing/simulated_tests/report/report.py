"""The report of a seed that has failed: what failed, how to replay it, the faults that matter, and the story."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from understudy.testing.simulated_tests.faults.faults import Fault
from understudy.testing.simulated_tests.outcome import Outcome, Problem
from understudy.testing.simulated_tests.report.shrink import MOST_RUNS, MOST_SECONDS, Runs, Shrunk, shrink

_MOST_DETAILS: Final = 14
_MOST_FAULTS: Final = 12
_MOST_MISSED: Final = 4
_MOST_NOTES: Final = 6
_MOST_PROBLEMS: Final = 5


def explained(
    outcome: Outcome,
    schedule: Sequence[Fault],
    run: Runs,
    *,
    replay: str,
    runs: int = MOST_RUNS,
    seconds: float = MOST_SECONDS,
) -> str:
    """Shrink the faults of a run that has failed, run it with the rest, and return the report.

    Args:
        outcome: what the run has shown.
        schedule: its faults.
        run: runs the seed again with some of them.
        replay: the command that replays the seed.
        runs, seconds: as of `shrink`.
    """
    shrunk = shrink(schedule, outcome, run, runs=runs, seconds=seconds)
    last = run(shrunk.faults, is_last=True)
    return report(outcome, shrunk, last, replay=replay)


def report(outcome: Outcome, shrunk: Shrunk, last: Outcome | None, *, replay: str) -> str:
    """Return the report, some 60 lines of text.

    Args:
        last: what the run with the shrunk faults has shown; None if its process has died.
    """
    first = outcome.problems[0]
    shown = None if last is None else next((each for each in last.problems if each.way == first.way), None)
    lines = [f"seed {outcome.seed} fails: {_headline(first)}", *_details(shown or first)]
    notes = outcome.notes if last is None or shown is None else last.notes
    lines += [f"    {note}" for note in notes[:_MOST_NOTES]]
    others = [each for each in outcome.problems[1:] if each.way != first.way]
    lines += [f"also {_headline(each)}" for each in others[:_MOST_PROBLEMS]]
    if len(others) > _MOST_PROBLEMS:
        lines.append(f"also {len(others) - _MOST_PROBLEMS} more problems")
    lines += [outcome.crash_point] if outcome.crash_point else []
    lines += ["", f"replay it:  {replay}"]
    lines += [] if last is None else [_page(last, shown)]
    lines += ["", *_faults(shrunk, outcome, last)]
    if last is not None and last.story:
        times = "times count from its first record"
        left_out = f", and {last.left_out} lines that matter less are left out" if last.left_out else ""
        lines += ["", f"what happened in this run; {times}{left_out}:", *last.story]
    if last is not None and shown is None:
        otherwise = f"fails otherwise: {_headline(last.problems[0])}" if last.problems else "has passed"
        lines += ["", f"when it was run again with these faults, it {otherwise}"]
    return "\n".join(lines)


def _page(last: Outcome, shown: Problem | None) -> str:
    """Return the address at which the page shows a problem of a run, or how to get a page.

    Args:
        shown: the problem; None for the first one.
    """
    if not last.page:
        return "see it:     UNDERSTUDY_PAGE=DIR leaves a page of the run in DIR"
    found = shown or next(iter(last.problems), None)
    return f"see it:     {Path(last.page).as_uri()}{found.link if found else ''}"


def _headline(problem: Problem) -> str:
    return str(problem).partition("\n")[0]


def _details(problem: Problem) -> Iterator[str]:
    """Yield the further lines of a problem: the rest of its text, then its details."""
    lines = [*problem.text.split("\n")[1:], *problem.details]
    for line in lines[:_MOST_DETAILS]:
        yield f"    {line}"
    if (more := len(lines) - _MOST_DETAILS) > 0:
        yield f"    … and {more} more lines"


def _faults(shrunk: Shrunk, outcome: Outcome, last: Outcome | None) -> Iterator[str]:
    """Yield the faults that are left, and how they were found."""
    number, of = len(shrunk.faults), shrunk.of
    search = f"{shrunk.runs} runs in {shrunk.seconds:.0f} s"
    if not of:
        yield "no fault was injected"
    elif not number:
        yield f"it fails in the same way without any of the {of} faults ({search})"
    elif number == of:
        yield f"faults: {'all of the' if of > 1 else 'the'} {_count(of)} matter{'s' if of == 1 else ''} ({search})"
    else:
        yield f"faults: {number} of {of} are enough ({search})"
    if number and not shrunk.is_minimal:
        yield "    the search has ended at its limit: fewer may be enough"
    yield from _listed(outcome.faults if last is None else last.faults, _MOST_FAULTS)
    if outcome.missed:
        yield f"{_count(len(outcome.missed))} had no effect in the first run:"
        yield from _listed(outcome.missed, _MOST_MISSED)


def _listed(words: Sequence[str], most: int) -> Iterator[str]:
    for line in words[:most]:
        yield f"  {line}"
    if len(words) > most:
        yield f"  … and {len(words) - most} more"


def _count(number: int) -> str:
    return f"{number} fault{'' if number == 1 else 's'}"
