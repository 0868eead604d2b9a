"""Writes down a failed seed: what it violated, a shrunk plan that also violates it, and the events that led there.

The folder of a failed seed holds `report.txt`, `plan.json`, which `understudy simulate --plan` replays, `events` of the
shrunk run with its `page.html`, and `whole-run`, the events of the run that the seed drew.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from understudy.foundation.eventlog.fences import Switch
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import moment
from understudy.history.reading.reader import read
from understudy.history.witness import link_to_problem, partition_of, until_witness
from understudy.trials.hunt.plan_files import write_plan
from understudy.trials.hunt.plan_shrinking import MOST_RUNS, Shrunk, main_problem, shrink
from understudy.trials.seeds.seeds import SeedReport, run_plan, run_seed
from understudy.trials.seeds.story_sentences import story_sentence

LAST_EVENTS = 50
MOST_COLUMNS = 240
_LEFT_OUT = ("topic_id",)
"""Names of fields that make a line long and give no information in a cluster of few topics."""


class FailedSeed(NamedTuple):
    """A failed seed that has been written down.

    Attributes:
        folder: the folder with its files.
        whole: the run that the seed drew.
        link: the fragment of the page's address that shows what the shrunk run violates; empty if it has no page.
    """

    folder: Path
    whole: SeedReport
    shrunk: Shrunk
    link: str = ""

    @property
    def faults_left(self) -> float:
        """The share of the faults that the shrunk plan has; 0 if there were none."""
        before = len(self.whole.plan.schedule.faults)
        return len(self.shrunk.plan.schedule.faults) / before if before else 0.0

    def __str__(self) -> str:
        whole, left = self.whole.plan, self.shrunk.plan
        return (
            f"seed {whole.seed} failed: {self.shrunk.kind}; left of {len(whole.schedule.faults)} faults "
            f"{len(left.schedule.faults)}, of {len(whole.actions)} client actions {len(left.actions)}, of "
            f"{whole.brokers} brokers {left.brokers}, after {self.shrunk.runs} runs"
            f"{'' if self.shrunk.is_minimal else ' (not minimal: no run was left)'}\n"
            f"  {self.shrunk.problem}\n"
            f"  see it: {self.see}\n"
            f"  the report: {self.folder / REPORT}"
        )

    @property
    def see(self) -> str:
        """The address of the page that shows what the shrunk run violates, or the command that serves such a page."""
        if not self.link:
            return f"understudy watch {shlex.quote(str(self.folder / EVENTS))}"
        return f"{(self.folder / PAGE).absolute().as_uri()}{self.link}"


REPORT, PLAN, EVENTS, PAGE, WHOLE_RUN = "report.txt", "plan.json", "events", "page.html", "whole-run"


def write_down(
    seed: int,
    seconds: int,
    into: Path,
    *,
    commit: str,
    fences_off: tuple[Switch, ...] = (),
    most_runs: int = MOST_RUNS,
    write_page: Callable[[Path, Path], bool] = lambda events, file: False,
) -> FailedSeed | None:
    """Run a failed seed again, shrink it, and leave everything about it in a new folder.

    Args:
        into: the folder in which the new one, `seed-N`, is made.
        commit: the commit of the software, for the report.
        write_page: writes the page of the run whose logs are in a folder to a file, and returns whether it did. The
            room `page` lies beside this one, which therefore cannot call it.

    Returns:
        None if the seed does not fail here.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = _new_folder(into, f"seed-{seed}")
    whole = run_seed(seed, seconds, fences_off=fences_off, events=folder / WHOLE_RUN)
    if not whole.problems:
        shutil.rmtree(folder)
        return None
    shrunk = shrink(whole, most_runs=most_runs)
    run_plan(shrunk.plan, events=folder / EVENTS)
    write_plan(folder / PLAN, shrunk.plan, violates=shrunk.kind, commit=commit)
    records = read([folder / EVENTS]).records
    link = link_to_problem(shrunk.problem, records) if write_page(folder / EVENTS, folder / PAGE) else ""
    failed = FailedSeed(folder, whole, shrunk, link)
    lines = _report_lines(failed, commit, records)
    (folder / REPORT).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return failed


def _new_folder(into: Path, name: str) -> Path:
    """Make a folder of this name, with a number behind the name if the folder exists."""
    number = 1
    while True:
        folder = into / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


def _report_lines(failed: FailedSeed, commit: str, records: Sequence[Envelope]) -> Iterator[str]:
    whole, shrunk = failed.whole, failed.shrunk
    yield f"Seed {whole.plan.seed} violates {shrunk.kind}" + (f" at commit {commit}" if commit else "")
    yield ""
    yield from ("In the run that the seed drew:", f"  {main_problem(whole)}")
    others = [problem for problem in whole.problems if problem != main_problem(whole)]
    yield from (f"  {problem}" for problem in others)
    yield from ("In the shrunk run:", f"  {shrunk.problem}", "")
    yield from ("Replay it:", f"  {whole.command}", f"  understudy simulate --plan {failed.folder / PLAN}", "")
    yield from ("See the shrunk run:", f"  {failed.see}", "")
    yield from ("Left of the plan:", *(f"  {line}" for line in _left(failed)), "")
    events = last_events(records, shrunk.problem)
    yield f"The last {len(events)} relevant events of the shrunk run:"
    yield from (f"  {line}" for line in events)


def _left(failed: FailedSeed) -> Iterator[str]:
    """Describe the parts of the whole plan that the shrunk plan has."""
    whole, left = failed.whole.plan, failed.shrunk.plan
    yield f"{len(left.schedule.faults)} of {len(whole.schedule.faults)} faults, after {failed.shrunk.runs} runs" + (
        "" if failed.shrunk.is_minimal else "; it may be larger than necessary, because no run was left"
    )
    yield f"{len(left.actions)} of {len(whole.actions)} client actions"
    yield f"{len(left.members)} of {len(whole.members)} lives of members of groups"
    yield f"load: {', '.join(left.load) or 'none'}"
    yield f"{left.brokers} of {whole.brokers} brokers, {left.partitions} of {whole.partitions} partitions of `orders`"
    yield f"{left.schedule.unknown_probability:g} of the answers of ZooKeeper to writes are lost"
    settings = (
        ("callbacks are reordered", left.reordering),
        ("unclean elections are allowed", left.unclean_election),
        ("clocks are wrong", left.wrong_clocks),
        ("each node has a clock of its own", left.own_clocks),
    )
    yield from (text for text, is_set in settings if is_set)
    if left.fences_off:
        yield "without " + " + ".join(left.fences_off)
    yield from str(left).splitlines()


def last_events(records: Sequence[Envelope], problem: str, *, most: int = LAST_EVENTS) -> list[str]:
    """Return a line for each of the last events before the witness of a problem that may have to do with it.

    These are faults, elections and other events of the control plane, and every record about the partition that the
    problem names. The witness is the last line.

    Args:
        records: the records of the run, in order.
        most: the maximum number of lines.
    """
    about = partition_of(problem, records)
    until = list(until_witness(records, problem))
    shown = [(record, story_sentence(record) or _shown(record, about)) for record in until]
    told = [(record, text) for record, text in shown if text]
    if until and not shown[-1][1]:
        told.append((until[-1], _fields(until[-1])))
    return [_line(record, record.mono_ms - until[0].mono_ms, text) for record, text in told[-most:]]


def _shown(record: Envelope, about: tuple[str, int] | None) -> str:
    """Return the fields of a record about a partition; empty for other records."""
    partition = (getattr(record.data, "topic", None), getattr(record.data, "partition", None))
    return _fields(record) if partition == about else ""


def _fields(record: Envelope) -> str:
    fields = msgspec.to_builtins(record.data).items()
    return " ".join([record.type, *(f"{name}={value}" for name, value in fields if name not in _LEFT_OUT)])


def _line(record: Envelope, at_ms: float, text: str) -> str:
    place = f"{record.node}/{record.incarnation}#{record.seq}"
    line = f"{moment(at_ms):>10}  {place:<20} {text}"
    return line if len(line) <= MOST_COLUMNS else f"{line[: MOST_COLUMNS - 2]} …"
