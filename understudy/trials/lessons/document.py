"""A lesson as values: the contents of its file, with marked values not filled in yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from understudy.clusters.values import Span
from understudy.foundation.eventlog.fences import Switch
from understudy.trials.experiments.language.document import Experiment, Section
from understudy.trials.lessons.conditions import RecordComparison

SCHEMA: Final = "understudy/lesson/v1"
"""The version of the format, the value of the key `schema`."""

ONE: Final = "one"
OTHER: Final = "other"
SIDES: Final = (ONE, OTHER)
"""The two runs of a lesson: the first one, and the one without its defence or with the opposite setting."""


class SweepPlan(Section, frozen=True, kw_only=True):
    """Many runs of one failover, instead of an experiment. A side is then its run of median outage."""

    runs: int
    brokers: int = 3
    partitions: int = 20
    session: Span


class OtherSide(Section, frozen=True, kw_only=True):
    """The run beside the first: without a defence, with other settings, another experiment or sweep, or a recording."""

    called: str
    without: tuple[Switch, ...] = ()
    """Fences and fixes to turn off."""
    settings: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Lines of server.properties that differ."""
    experiment: Experiment | None = None
    sweep: SweepPlan | None = None
    recording: str = ""
    """The command that makes such a run, if this side is not simulated and exists only as a recording."""


class Choice(Section, frozen=True, kw_only=True):
    """One answer to choose."""

    text: str
    when: tuple[RecordComparison, ...]
    """The condition over measurements under which it is right."""


class Question(Section, frozen=True, kw_only=True):
    """A question with choices, or with a number."""

    question: str
    choices: tuple[Choice, ...] = ()
    answer: str = ""
    """The measurement that is the right number."""
    unit: str = ""
    within: int = 25
    """Per cent by which a number may be off and still count as right."""
    because: str = ""


class Stop(Section, frozen=True, kw_only=True):
    """A moment to stop at: the first record, or the n-th, of a type that fits all conditions.

    Attributes:
        side: `one` or `other`.
        where: the values that fields must have, by the path of the field; see `conditions.fits`.
        after: the stop of the same side after whose record the search begins.
        show: names of the parts of the picture that prove what the text says, with marked values; without them they
            follow from the record. The first is marked with a line from the text.
        beside: a stop of the other side, whose run is shown at that moment beside this one.
    """

    name: str
    side: str = ONE
    find: str
    where: Mapping[str, Any] = msgspec.field(default_factory=dict)
    nth: int = 1
    after: str = ""
    show: tuple[str, ...] = ()
    beside: str = ""
    headline: str
    text: str


class Reading(Section, frozen=True, kw_only=True):
    """Something to read: a file of Kafka 3.9 or of this repository, a KIP or a JIRA issue."""

    kafka: str = ""
    ours: str = ""
    kip: str = ""
    jira: str = ""
    why: str

    @property
    def where(self) -> tuple[str, str]:
        """Return the name of the attribute that is set, and its path or number."""
        for kind in ("kafka", "ours", "kip", "jira"):
            if value := getattr(self, kind):
                return kind, value
        return "", ""


class Lesson(Section, frozen=True, kw_only=True):
    """One lesson file."""

    schema: str = SCHEMA
    number: int = 0
    """Its place among the lessons of Understudy; 0 for any other lesson."""
    name: str
    title: str
    question: str
    minutes: int
    called: str = "as it is"
    """The name of the first side."""
    experiment: Experiment | None = None
    sweep: SweepPlan | None = None
    seed: int = 1
    intro: str
    """The text about what happens, before the prediction."""
    other: OtherSide
    predict: Question
    stops: tuple[Stop, ...]
    check: Question
    explain: str
    exercise: str = ""
    """What the learner does to the cluster, if it continues after the run."""
    read: tuple[Reading, ...]

    def stop(self, name: str) -> Stop | None:
        """Return the stop of this name, or None."""
        return next((each for each in self.stops if each.name == name), None)
