"""Reads lesson files: YAML with a versioned schema. Unknown keys are refused, with line and nearest key.

Beside keys and values it checks every name in texts, conditions and answers, so that a lesson whose file can be read
names nothing that its records cannot have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from understudy.clusters.problems import BadExperiment, BadValue, Problem
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.trials.experiments.language import expectations
from understudy.trials.experiments.language.kinds import (
    NAME,
    SPAN,
    StepKey,
    ValueKind,
    choice,
    integer,
    list_of,
    mapping_of,
    scalar,
    section,
    section_schema,
    word_of,
)
from understudy.trials.experiments.language.library import find as find_experiment
from understudy.trials.experiments.language.reading import (
    EXPERIMENT_WITHIN,
    read_experiment_file,
    read_file,
)
from understudy.trials.experiments.language.yaml_nodes import YamlNode
from understudy.trials.lessons.conditions import check_path, is_number, parse_condition
from understudy.trials.lessons.document import (
    SCHEMA,
    SIDES,
    Choice,
    Lesson,
    OtherSide,
    Question,
    Reading,
    Stop,
    SweepPlan,
)
from understudy.trials.lessons.evidence import PATTERN, names_in, parse_part
from understudy.trials.lessons.measurements import MARK, check_name

# ------------------------------------------------------------------ kinds


def _experiment(node: YamlNode, problems: list[Problem]) -> Any:
    if isinstance(node.value, dict):
        return EXPERIMENT_WITHIN.read(node, problems)
    try:
        return read_experiment_file(find_experiment(str(node.value)))
    except BadExperiment as bad:
        raise BadValue(bad.problems[0].message) from None


def _text(value: object) -> str:
    """Return a text with an empty line between paragraphs. In a file every line break of a `>` text ends one."""
    if value is None or not str(value).strip():
        raise BadValue("the value is empty; expected a text")
    return "\n\n".join(part.strip() for part in str(value).splitlines() if part.strip())


TEXT: Final = scalar(_text, {"type": "string"}, "a text")
_VALUE: Final = scalar(lambda value: value, {}, "a value")
_SWITCHES: Final = scalar(expectations.switches, {"type": "string"}, "a fence or a fix")
_RECORD_TYPE: Final = scalar(word_of(sorted(PAYLOAD_BY_TYPE), "record type"), {"type": "string"}, "a record type")
_PART: Final = scalar(parse_part, {"type": "string", "pattern": PATTERN}, "a part of the picture")
_EXPERIMENT: Final = ValueKind(_experiment, {"type": ["string", "object"]}, "the name of an experiment, or its mapping")

SWEEP_KEYS: Final = (
    StepKey("runs", integer(2, 10_000), "how many runs", is_required=True),
    StepKey("brokers", integer(2, 100), "how many brokers; by default 3"),
    StepKey("partitions", integer(1, 10_000), "how many partitions; by default 20"),
    StepKey("session", SPAN, "the ZooKeeper session timeout", is_required=True),
)
_SWEEP: Final = section(SWEEP_KEYS, SweepPlan, "a sweep")
OTHER_KEYS: Final = (
    StepKey("called", TEXT, "what this side is called, for example: without the controller epoch", is_required=True),
    StepKey("without", _SWITCHES, "fences and fixes to turn off"),
    StepKey("set", mapping_of(scalar(str, {}, "a value"), "server.properties"), "settings that differ", "settings"),
    StepKey("experiment", _EXPERIMENT, "another experiment"),
    StepKey("sweep", _SWEEP, "another sweep"),
    StepKey("recording", TEXT, "a run that is not simulated, only recorded: the command that makes it"),
)
CHOICE_KEYS: Final = (
    StepKey("text", TEXT, "the answer", is_required=True),
    StepKey("when", scalar(parse_condition, {"type": "string"}, "a condition"), "when it is right", is_required=True),
)
QUESTION_KEYS: Final = (
    StepKey("question", TEXT, "the question", is_required=True),
    StepKey("choices", list_of(section(CHOICE_KEYS, Choice, "a choice"), most=9), "the answers to choose from"),
    StepKey("answer", TEXT, "instead of choices: the measurement that is the right number"),
    StepKey("unit", choice("ms", "s", ""), "the unit of the number: ms or s"),
    StepKey("within", integer(1, 100), "per cent by which the number may be off; by default 25"),
    StepKey("because", TEXT, "why, shown with the right answer"),
)
STOP_KEYS: Final = (
    StepKey("name", NAME, "the name of the moment", is_required=True),
    StepKey("side", choice(*SIDES), "in which of the two runs; by default one"),
    StepKey("find", _RECORD_TYPE, "the type of the record", is_required=True),
    StepKey("where", mapping_of(_VALUE, "fields"), "the values that its fields must have"),
    StepKey("nth", integer(1, 10_000), "the n-th such record; by default the first"),
    StepKey("after", NAME, "the stop after which the search begins"),
    StepKey("show", list_of(_PART, most=9), "the parts of the picture that prove it, the most important one first"),
    StepKey("beside", NAME, "a stop of the other side, to be shown beside this one"),
    StepKey("headline", TEXT, "what happens, in a few words", is_required=True),
    StepKey("text", TEXT, "what to notice", is_required=True),
)
READ_KEYS: Final = (
    StepKey("kafka", TEXT, "a file of Kafka 3.9"),
    StepKey("ours", TEXT, "a file of this repository"),
    StepKey("kip", TEXT, "a proposal, for example KIP-380"),
    StepKey("jira", TEXT, "an issue, for example KAFKA-6082"),
    StepKey("why", TEXT, "what it shows", is_required=True),
)
KEYS: Final = (
    StepKey("schema", choice(SCHEMA), f"the version of this format: {SCHEMA}", is_required=True),
    StepKey("number", integer(0, 1_000), "its place among the lessons"),
    StepKey("name", NAME, "its name", is_required=True),
    StepKey("title", TEXT, "its title", is_required=True),
    StepKey("question", TEXT, "what it asks", is_required=True),
    StepKey("minutes", integer(1, 90), "how long it takes in a class", is_required=True),
    StepKey("called", TEXT, "what the first side is called"),
    StepKey("experiment", _EXPERIMENT, "what is run"),
    StepKey("sweep", _SWEEP, "instead of an experiment: many runs of one failover"),
    StepKey("seed", integer(0, 2**62), "the seed of both sides in the simulator; by default 1"),
    StepKey("intro", TEXT, "what happens in it, before the prediction", is_required=True),
    StepKey("other", section(OTHER_KEYS, OtherSide, "other"), "the run beside it", is_required=True),
    StepKey("predict", section(QUESTION_KEYS, Question, "predict"), "what the learner predicts", is_required=True),
    StepKey("stops", list_of(section(STOP_KEYS, Stop, "a stop"), most=40), "the moments to stop at", is_required=True),
    StepKey("check", section(QUESTION_KEYS, Question, "check"), "a question at the end", is_required=True),
    StepKey("explain", TEXT, "what to explain at the end", is_required=True),
    StepKey("exercise", TEXT, "what to do to the cluster with one's own hands, after `--watch` has shown the run"),
    StepKey("read", list_of(section(READ_KEYS, Reading, "a reading")), "what to read", is_required=True),
)
"""The keys of a file."""

# ------------------------------------------------------------------ files


def read_lesson_file(path: Path) -> Lesson:
    """Read a lesson file. Raises BadExperiment, also if the file cannot be read."""
    lesson: Lesson = read_file(path, LESSON)
    return lesson


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a lesson file, for editors. The reader checks more: names in texts and conditions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A lesson of Understudy",
        **section_schema(KEYS),
    }


# ------------------------------------------------------------------ problems between values


def _inconsistencies(lesson: Lesson) -> list[Problem]:
    problems = [*_wrong_sides(lesson), *_wrong_stops(lesson)]
    for line, text in texts_of(lesson):
        for match in MARK.finditer(text):
            _note(problems, line, partial(check_name, match[1], lesson))
    for what, question in (("predict", lesson.predict), ("check", lesson.check)):
        if bool(question.choices) == bool(question.answer):
            problems.append(Problem(question.line, f"{what} has either choices or answer, the measurement to guess"))
        if question.answer:
            _note(problems, question.line, partial(check_name, question.answer, lesson))
        for each in question.choices:
            for comparison in each.when:
                for word in (comparison.left, comparison.right):
                    if not is_number(word):
                        _note(problems, each.line, partial(check_name, word, lesson))
    problems += [
        Problem(each.line, "a reading has one of kafka, ours, kip and jira")
        for each in lesson.read
        if sum(map(bool, (each.kafka, each.ours, each.kip, each.jira))) != 1
    ]
    return problems


def _wrong_sides(lesson: Lesson) -> Iterator[Problem]:
    other = lesson.other
    if other.recording and lesson.experiment is None:
        yield Problem(lesson.line, "the first side has no experiment: a recording may only be the other side of one")
        return
    if (lesson.experiment is None) == (lesson.sweep is None):
        yield Problem(lesson.line, "a lesson has either an experiment or a sweep")
    if other.recording:
        if other.without or other.settings or other.experiment or other.sweep:
            yield Problem(other.line, "a side with a recording is not run: leave out without, set, experiment, sweep")
    elif other.sweep is not None or lesson.sweep is not None:
        if other.sweep is None or lesson.sweep is None or other.without or other.settings or other.experiment:
            yield Problem(other.line, "a lesson with a sweep has a sweep on the other side, and nothing else there")
    elif not other.without and not other.settings and other.experiment is None:
        yield Problem(
            other.line, "other has none of without, set, experiment and recording: it would be the same run again"
        )


def _wrong_stops(lesson: Lesson) -> Iterator[Problem]:
    seen: dict[str, Stop] = {}
    for side in SIDES:
        if all(stop.side != side for stop in lesson.stops):
            yield Problem(lesson.line, f"no stop is on the side {side}; each of the two runs needs one")
    for stop in lesson.stops:
        if stop.name in seen:
            yield Problem(stop.line, f"two stops have the name {stop.name}")
        if stop.after and (stop.after not in seen or seen[stop.after].side != stop.side):
            yield Problem(stop.line, f"after: {stop.after} is no earlier stop of the same side")
        for path, wanted in stop.where.items():
            try:
                check_path(stop.find, path)
                word = str(wanted).rpartition(" ")[2]
                if word.startswith("stop."):
                    check_name(word, lesson)
            except BadValue as bad:
                yield Problem(stop.line, f"where: {bad}")
        yield from _wrong_evidence(lesson, stop)
        seen[stop.name] = stop


def _wrong_evidence(lesson: Lesson, stop: Stop) -> Iterator[Problem]:
    for name in names_in(stop.show):
        try:
            if not name.startswith("stop."):
                raise BadValue(f"{name} is no field of a stop, which is all that the name of a part may have")
            check_name(name, lesson)
        except BadValue as bad:
            yield Problem(stop.line, f"show: {bad}")
    if stop.beside:
        beside = lesson.stop(stop.beside)
        if beside is None or beside.side == stop.side:
            others = ", ".join(each.name for each in lesson.stops if each.side != stop.side)
            yield Problem(stop.line, f"beside: {stop.beside} is no stop of the other side; it has {others}")


def texts_of(lesson: Lesson) -> Iterator[tuple[int, str]]:
    """Yield every text of a lesson that may have marked values, with its line."""
    yield from ((lesson.line, text) for text in (lesson.title, lesson.question, lesson.intro, lesson.explain))
    yield from ((lesson.line, text) for text in (lesson.called, lesson.exercise) if text)
    yield lesson.other.line, lesson.other.called
    for question in (lesson.predict, lesson.check):
        yield from ((question.line, text) for text in (question.question, question.because))
        yield from ((each.line, each.text) for each in question.choices)
    for stop in lesson.stops:
        yield stop.line, stop.headline
        yield stop.line, stop.text
    yield from ((each.line, each.why) for each in lesson.read)


def _note(problems: list[Problem], line: int, check: Callable[[], None]) -> None:
    try:
        check()
    except BadValue as bad:
        problems.append(Problem(line, str(bad)))


LESSON: Final = section(KEYS, Lesson, "a lesson", _inconsistencies)
