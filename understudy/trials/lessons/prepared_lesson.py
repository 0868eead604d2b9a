"""`PreparedLesson`: a lesson with its runs: stops found, values filled in, answers known. The page loads it as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from understudy.clusters.problems import BadValue
from understudy.foundation.eventlog.records import Envelope
from understudy.history.metrics.metrics import measure
from understudy.history.metrics.settings import KAFKA_KRAFT, KAFKA_ZK, UNDERSTUDY
from understudy.trials.lessons.conditions import fits, holds, values_at
from understudy.trials.lessons.document import ONE, OTHER, SIDES, Lesson, Question, Stop
from understudy.trials.lessons.evidence import shown_at
from understudy.trials.lessons.measurements import (
    AtStop,
    fill,
    load_has_begun,
    numbers_of,
    numbers_so_far,
    value_of,
)
from understudy.trials.lessons.side_run import PROCESSES, RECORDED, LessonNotShown, SideRun
from understudy.trials.lessons.sweep_plots import draw_sweeps
from understudy.trials.lessons.sweeping import SweepRow, command_options, kept_run, prefix_of_runs

VERSION: Final = 1
"""The version of the JSON."""
_SOFTWARE: Final = {UNDERSTUDY: "Understudy", KAFKA_ZK: "Apache Kafka", KAFKA_KRAFT: "Apache Kafka"}
"""The name of the software of each mode."""
MISSING: Final = "…"
"""Text for a value that a run on processes does not have."""


class PreparedStop(msgspec.Struct, frozen=True, kw_only=True):
    """A moment to stop at.

    Attributes:
        record: node, incarnation and sequence number of its record; None if the run does not have it.
        at_ms: milliseconds since the first record of the run.
        show: the names of the parts of the picture that prove what the text says, the most important one first.
        beside: the name of a stop of the other side that is shown beside this one; empty if there is none.
    """

    name: str
    record: tuple[str, int, int] | None
    at_ms: float | None
    show: tuple[str, ...] = ()
    beside: str = ""
    headline: str
    text: str


class PreparedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a sweep, as the page shows them.

    Attributes:
        plot: SVG of the runs of this side, and of the sides before it, on one axis.
        prefix: the part of their names that all of them share; the rest is the seed of a run.
        opened_by: the command that makes and opens one of them, with `SEED` and `RUN` in place of its seed and name.
        kept: the run of median outage, whose page is beside the text.
    """

    plot: str
    prefix: str
    opened_by: str
    kept: str


class PreparedRecording(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of a side that is not simulated.

    Attributes:
        software: the software of its brokers with the version, for example `Apache Kafka 4.2.0`.
        date: the day of the run in UTC, for example `2026-11-29`.
        command: the command that makes such a run.
    """

    software: str
    date: str
    command: str


class PreparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs.

    Attributes:
        side: `one` or `other`.
        world: `simulated`, `processes`, or `recorded` for a run that is never simulated.
        run: the folder with its event logs.
        table: of a sweep: its runs, shortest outage first.
        runs: how the page shows the table; None if the side is no sweep.
        recording: the origin of a run that is never simulated; None for any other.
    """

    side: str
    title: str
    world: str
    run: str
    stops: tuple[PreparedStop, ...]
    numbers: dict[str, Any]
    table: tuple[SweepRow, ...] = ()
    measured_by: str = ""
    """The program that computed the table of a sweep that was run now: Spark or Python."""
    runs: PreparedRuns | None = None
    recording: PreparedRecording | None = None


class PreparedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its right answer.

    Attributes:
        right_choice: the place of the right choice, from 0; None if a number is asked for, or the run has no answer.
        right_number: the right number in `unit`.
        within: per cent by which a number may be off.
    """

    question: str
    choices: tuple[str, ...]
    unit: str
    right_choice: int | None
    right_number: float | None
    within: int
    because: str

    def is_right(self, answer: str) -> bool:
        """Whether an answer is right: the number of a choice from 1, or a number within the bound."""
        try:
            number = float(answer.strip().removesuffix(self.unit).strip().replace(",", ""))
        except ValueError:
            return False
        if self.choices:
            return self.right_choice is not None and number == self.right_choice + 1
        return self.right_number is not None and abs(number - self.right_number) <= self.bound

    @property
    def bound(self) -> float:
        return abs(self.right_number or 0.0) * self.within / 100


class PreparedReading(msgspec.Struct, frozen=True, kw_only=True):
    """Something to read: `kind` is kafka, ours, kip or jira, `where` its path or number."""

    kind: str
    where: str
    why: str


class PreparedLesson(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson that has been run. Texts are plain: paragraphs with an empty line between, and `code` in backquotes."""

    version: int = VERSION
    number: int
    name: str
    title: str
    question: str
    minutes: int
    source: str
    """`simulated`, `processes` or `recorded`."""
    seed: int
    intro: str
    predict: PreparedQuestion
    sides: tuple[PreparedSide, ...]
    check: PreparedQuestion
    explain: str
    exercise: str
    """What the learner does to the cluster; empty if a lesson has no such text."""
    read: tuple[PreparedReading, ...]


def prepare_lesson(lesson: Lesson, runs: Sequence[SideRun], source: str, seed: int) -> PreparedLesson:
    """Find the stops of a lesson in its runs, and fill in its texts.

    Runs on processes differ, so a stop or a value may be missing from one. A simulated or recorded run must have all of
    them.

    Raises:
        LessonNotShown: a simulated or recorded run lacks a stop or a value, or not exactly one choice is right.
    """
    numbers = {side: numbers_of(run.records, run.facts) for side, run in zip(SIDES, runs, strict=True)}
    return _written(lesson, runs, source, seed, numbers, all(run.world != PROCESSES for run in runs))


def prepare_so_far(lesson: Lesson, runs: Sequence[SideRun], seed: int, planned: Mapping[str, Any]) -> PreparedLesson:
    """Prepare a lesson whose first run continues on processes: with the stops that it has reached.

    Only values that further records cannot change are filled in, and no question has an answer yet.

    Args:
        runs: the first has the records so far, in the order in which the page has them.
        planned: measurements that are known before the run.
    """
    one, other = runs
    numbers = {ONE: {**planned, **numbers_so_far(one.records)}, OTHER: numbers_of(other.records, other.facts)}
    if not load_has_begun(one.records):
        runs = (replace(one, records=()), other)
    prepared = _written(lesson, runs, PROCESSES, seed, numbers, is_strict=False)
    return msgspec.structs.replace(prepared, predict=_unanswered(prepared.predict), check=_unanswered(prepared.check))


def _unanswered(question: PreparedQuestion) -> PreparedQuestion:
    return msgspec.structs.replace(question, right_choice=None, right_number=None)


def _written(
    lesson: Lesson,
    runs: Sequence[SideRun],
    source: str,
    seed: int,
    numbers: Mapping[str, dict[str, Any]],
    is_strict: bool,
) -> PreparedLesson:
    found: dict[str, AtStop] = {}

    def value(name: str) -> Any:
        return value_of(name, numbers[ONE], numbers[OTHER], found)

    for side, run in zip(SIDES, runs, strict=True):
        stops = [each for each in lesson.stops if each.side == side]
        found |= find_stops(stops, run.records, value)
        missing = [each.name for each in stops if each.name not in found]
        if missing and is_strict:
            raise LessonNotShown(f"{lesson.name}: the run of side {side} has no record for {', '.join(missing)}")

    def filled(text: str) -> str:
        return fill(text.strip(), value, None if is_strict else MISSING)

    try:
        return PreparedLesson(
            number=lesson.number,
            name=lesson.name,
            title=lesson.title,
            question=filled(lesson.question),
            minutes=lesson.minutes,
            source=source,
            seed=seed,
            intro=filled(lesson.intro),
            predict=_question(lesson.predict, filled, value, is_strict),
            sides=tuple(
                PreparedSide(
                    side=side,
                    title=filled(run.title),
                    world=run.world,
                    run=str(run.folder),
                    stops=tuple(
                        _stop(each, found.get(each.name), filled, value) for each in lesson.stops if each.side == side
                    ),
                    numbers=numbers[side],
                    table=run.table,
                    measured_by=run.measured_by,
                    runs=_runs(lesson, runs[: place + 1]),
                    recording=_recording(lesson, run) if run.world == RECORDED else None,
                )
                for place, (side, run) in enumerate(zip(SIDES, runs, strict=True))
            ),
            check=_question(lesson.check, filled, value, is_strict),
            explain=filled(lesson.explain),
            exercise=filled(lesson.exercise),
            read=tuple(PreparedReading(kind=each.where[0], where=each.where[1], why=each.why) for each in lesson.read),
        )
    except BadValue as bad:
        raise LessonNotShown(f"{lesson.name}: {bad}") from None


def _recording(lesson: Lesson, run: SideRun) -> PreparedRecording:
    """Return the origin of a recorded run, as its records describe it."""
    settings = measure("run", run.records).settings
    words = (_SOFTWARE.get(settings.mode or "", "a cluster"), settings.software_version or "")
    return PreparedRecording(
        software=" ".join(word for word in words if word),
        date=f"{datetime.fromtimestamp(run.records[0].wall_ms / 1000, UTC):%Y-%m-%d}",
        command=lesson.other.recording,
    )


def _runs(lesson: Lesson, sides: Sequence[SideRun]) -> PreparedRuns | None:
    """Return the runs of the last of some sides, drawn with the runs of the sides before it."""
    side = sides[-1]
    plan = lesson.sweep if len(sides) == 1 else lesson.other.sweep
    if plan is None or not side.table:
        return None
    return PreparedRuns(
        plot=draw_sweeps([(each.title, each.table) for each in sides]),
        prefix=prefix_of_runs(side.table),
        opened_by=f"understudy sweep {command_options(plan)} --seed SEED --dir runs && understudy watch runs/RUN",
        kept=kept_run(side.table),
    )


def find_stops(stops: Sequence[Stop], records: Sequence[Envelope], value: Callable[[str], Any]) -> dict[str, AtStop]:
    """Return the record of each stop that the records have. `stop.NAME.FIELD` may name stops found before."""
    found: dict[str, AtStop] = {}
    places: dict[str, int] = {}
    first_ms = records[0].mono_ms if records else 0.0

    def known(name: str) -> Any:
        stop, _, path = name.removeprefix("stop.").partition(".")
        at = found.get(stop)
        return value(name) if at is None else next(iter(values_at(at.record, path, at.first_ms)), None)

    def matches(record: Envelope, stop: Stop) -> bool:
        return record.type == stop.find and all(
            any(fits(each, wanted, known) for each in values_at(record, path, first_ms))
            for path, wanted in stop.where.items()
        )

    for stop in stops:
        if stop.after and stop.after not in places:
            continue
        begin = places[stop.after] + 1 if stop.after else 0
        try:
            hits = [place for place in range(begin, len(records)) if matches(records[place], stop)]
        except BadValue:
            continue
        if len(hits) >= stop.nth:
            places[stop.name] = hits[stop.nth - 1]
            found[stop.name] = AtStop(records[places[stop.name]], first_ms)
    return found


def _stop(stop: Stop, at: AtStop | None, filled: Callable[[str], str], value: Callable[[str], Any]) -> PreparedStop:
    record = None if at is None else at.record
    return PreparedStop(
        name=stop.name,
        record=None if record is None else (record.node, record.incarnation, record.seq),
        at_ms=None if at is None else round(at.record.mono_ms - at.first_ms, 3),
        show=shown_at(stop, at, value),
        beside=stop.beside,
        headline=filled(stop.headline),
        text=filled(stop.text),
    )


def _question(
    question: Question, filled: Callable[[str], str], value: Callable[[str], Any], is_strict: bool
) -> PreparedQuestion:
    number = None
    right: list[int] = []
    try:
        if question.answer:
            number = round(float(value(question.answer)) / (1000 if question.unit == "s" else 1), 3)
        right = [place for place, each in enumerate(question.choices) if holds(each.when, value)]
    except BadValue:
        if is_strict:
            raise
    if is_strict and question.choices and len(right) != 1:
        raise BadValue(f"of the choices of {question.question.strip()!r}, {len(right)} are right; expected one")
    return PreparedQuestion(
        question=filled(question.question),
        choices=tuple(filled(each.text) for each in question.choices),
        unit=question.unit,
        right_choice=right[0] if len(right) == 1 else None,
        right_number=number,
        within=question.within,
        because=filled(question.because),
    )
