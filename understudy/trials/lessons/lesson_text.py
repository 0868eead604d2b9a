"""Shows a lesson as text: the question, the prediction, the stops of both sides, the check, what to read."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import digits, fixed, moment
from understudy.history.narrator import describe
from understudy.history.writing import cut
from understudy.trials.lessons.prepared_lesson import PreparedLesson, PreparedQuestion, PreparedSide, PreparedStop
from understudy.trials.lessons.side_run import SideRun
from understudy.trials.seeds.story_sentences import story_sentence

WIDTH: Final = 96
_AROUND: Final = 2
"""Number of sentences before, and after, the sentence of a stop."""
_LONGEST: Final = 160
_ASKED: Final = "Your answer"

Ask = Callable[[str], str]
"""Function that shows a prompt and returns what the learner types; an empty text if there is no answer."""


def show_as_text(
    prepared: PreparedLesson, runs: Sequence[SideRun], ask: Ask, show: Callable[[str], None], *, pauses: bool = False
) -> None:
    """Show a lesson, and ask its two questions.

    Args:
        runs: the runs of its sides, for the sentences around each stop.
        ask: asks the learner.
        show: prints a line.
        pauses: whether to wait for the Enter key before each stop.
    """

    def show_all(lines: Iterable[str]) -> None:
        for line in lines:
            show(line)

    def ask_for(question: PreparedQuestion, word: str) -> str:
        show_all(_question(question, word))
        unit = f" (in {question.unit})" if question.unit else ""
        return ask(f"{_ASKED}{unit}: ").strip()

    show_all(heading(prepared))
    predicted = ask_for(prepared.predict, "Predict")
    for side, run in zip(prepared.sides, runs, strict=True):
        show_all(_side_heading(side))
        for stop in side.stops:
            if pauses:
                ask("— Enter —")
            show_all(_stop(stop, run.records))
        if side is prepared.sides[0]:
            show_all(_answer(prepared.predict, predicted))
    checked = ask_for(prepared.check, "Check")
    show_all(_answer(prepared.check, checked))
    show_all(_ending(prepared))


def heading(prepared: PreparedLesson) -> Iterator[str]:
    number = f"Lesson {prepared.number}: " if prepared.number else ""
    yield f"{number}{prepared.title}"
    yield f"{prepared.source}, seed {prepared.seed}; about {prepared.minutes} minutes"
    yield ""
    yield from wrapped(prepared.question)
    yield ""
    yield from wrapped(prepared.intro)


def wrapped(text: str, indent: str = "") -> Iterator[str]:
    """Yield the lines of a text whose paragraphs are separated by empty lines."""
    for place, paragraph in enumerate(text.split("\n\n")):
        if place:
            yield ""
        yield from textwrap.wrap(" ".join(paragraph.split()), WIDTH, initial_indent=indent, subsequent_indent=indent)


def _question(question: PreparedQuestion, word: str) -> Iterator[str]:
    yield ""
    yield from wrapped(f"{word}: {question.question}")
    for number, choice in enumerate(question.choices, 1):
        yield from wrapped(f"{number}. {choice}", "  ")


def _answer(question: PreparedQuestion, answer: str) -> Iterator[str]:
    if question.right_choice is not None:
        right = question.choices[question.right_choice]
    elif question.right_number is not None:
        right = f"{digits(question.right_number)} {question.unit}".strip()
    else:
        right = "this run has none"
    verdict = f"You answered {answer}: {'right' if question.is_right(answer) else 'not so'}. " if answer else ""
    yield ""
    yield from wrapped(f"{verdict}The answer: {right}")
    yield from wrapped(question.because)


def _side_heading(side: PreparedSide) -> Iterator[str]:
    yield ""
    title = f"{side.title} ({side.world})"
    yield title
    yield "-" * len(title)
    if (made := side.recording) is not None:
        yield from wrapped(f"A recording of {made.software}, of {made.date}. Such a run is made by: {made.command}")
    if side.table:
        rows = side.table
        middle = (len(rows) - 1) // 2
        chosen = sorted({0, 1, 2, middle, len(rows) - 3, len(rows) - 2, len(rows) - 1})
        yield f"{'run':<28}{'detection':>12}{'election':>12}{'takeover':>12}{'propagation':>14}{'outage':>12}"
        for place in chosen:
            if 0 <= place < len(rows):
                row = rows[place]
                yield (
                    f"{row.run:<28}{fixed(row.detection_ms, 1):>12}{fixed(row.election_ms, 1):>12}"
                    f"{fixed(row.takeover_ms, 1):>12}{fixed(row.propagation_ms, 1):>14}{fixed(row.outage_ms, 1):>12}"
                )
        yield f"({len(rows)} runs by outage, times in ms: the shortest, the median and the longest)"
        if side.measured_by:
            yield from wrapped(f"Computed by {side.measured_by}.")


def _stop(stop: PreparedStop, records: Sequence[Envelope]) -> Iterator[str]:
    yield ""
    if stop.record is None or stop.at_ms is None:
        yield f"  ({stop.headline}: this did not happen in this run)"
        return
    yield from wrapped(f"{moment(stop.at_ms)}  {stop.headline}", "  ")
    place = next(place for place, each in enumerate(records) if (each.node, each.incarnation, each.seq) == stop.record)
    for record in around(place, records):
        text = f"{moment(record.mono_ms - records[0].mono_ms)}  {record.node} {describe(record) or _plain(record)}"
        sign = ">" if record is records[place] else " "
        yield f"  {sign} {cut(text, _LONGEST)}"
    yield ""
    yield from wrapped(stop.text, "    ")


def around(place: int, records: Sequence[Envelope]) -> list[Envelope]:
    """Return the record at a place and the nearest ones before and after it that have a sentence."""
    before = [each for each in records[max(0, place - 200) : place] if story_sentence(each)][-_AROUND:]
    after = [each for each in records[place + 1 : place + 200] if story_sentence(each)][:_AROUND]
    return [*before, records[place], *after]


def _plain(record: Envelope) -> str:
    """A record without a sentence: its type and its short fields."""
    fields = ((name, getattr(record.data, name)) for name in record.data.__struct_fields__)
    return f"{record.type} " + ", ".join(f"{name} {value}" for name, value in fields if len(str(value)) <= 40)


def _ending(prepared: PreparedLesson) -> Iterator[str]:
    yield ""
    yield from wrapped(prepared.explain)
    yield ""
    yield "Read:"
    kinds = {"kafka": "Kafka: ", "ours": "Understudy: ", "kip": "", "jira": ""}
    for each in prepared.read:
        yield from wrapped(f"{kinds[each.kind]}{each.where}: {each.why}", "  ")
