"""The measurements that texts and answers of a lesson may name: a fixed set, computed from the records of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from understudy.clusters.problems import BadValue, one_of
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.eventlog.records import (
    PAYLOAD_BY_TYPE,
    ClientRequestEnded,
    Envelope,
    EventEnded,
    EventStarted,
    StepReached,
)
from understudy.foundation.times import AT_ONCE, digits, duration, micros, moment
from understudy.history.metrics.metrics import measure
from understudy.history.metrics.settings import KAFKA_KRAFT
from understudy.trials.experiments.report.timeline import LOAD_BEGUN
from understudy.trials.lessons.conditions import check_path, values_at
from understudy.trials.lessons.document import OTHER, Lesson

NAMED: Final[Mapping[str, str]] = {
    "detection_ms": "of the first failover: from the loss of the controller until a broker notices it",
    "election_ms": "of the first failover: from noticing to the election",
    "takeover_ms": "of the first failover: from the election until every request is in its channel",
    "reading_ms": "of that takeover: reading ZooKeeper",
    "writing_ms": "of that takeover: waiting for writes",
    "propagation_ms": "of the first failover: from there to the last answer of a broker",
    "outage_ms": "of the first failover: from the loss to the moment when the next controller is ready",
    "session_ms": "the session timeout that ZooKeeper granted; in KRaft mode `broker.session.timeout.ms`",
    "brokers": "how many brokers the cluster has",
    "partitions": "how many partitions were seen",
    "controllers": "how many times a controller was elected",
    "longest_leaderless_ms": "the longest time that one partition was without a leader",
    "leaderless_partitions": "partitions that were without a leader for any time",
    "clean_elections": "partition leaders elected from the ISR",
    "unclean_elections": "partition leaders elected from outside the ISR",
    "isr_shrinks": "ISRs that became smaller",
    "isr_expands": "ISRs that became larger",
    "requests": "control requests that were sent",
    "fence_hits": "how often a fence met something stale",
    "let_through": "how often a fence that was switched off let something stale pass",
    "longest_wait_ms": "the longest time that a controller event waited in the queue",
    "longest_event_ms": "the longest time that the controller worked on one event",
    "sent": "records that producers sent",
    "acknowledged": "records that were acknowledged",
    "refused": "records that were refused",
    "unknown": "records of which the producer does not know",
    "lost": "records that were acknowledged, and are not in the log at the end",
    "violations": "expectations and invariants that were violated",
    "runs": "of a sweep: how many runs it had",
    "median_detection_ms": "of a sweep: the median detection",
    "median_election_ms": "of a sweep: the median election",
    "median_takeover_ms": "of a sweep: the median takeover",
    "median_propagation_ms": "of a sweep: the median propagation",
    "median_outage_ms": "of a sweep: the median outage",
    "shortest_outage_ms": "of a sweep: the shortest outage",
    "longest_outage_ms": "of a sweep: the longest outage",
    "detection_share": "of a sweep: the share of the detections in the sum of the outages",
}
"""Every measurement by its name, with its meaning. `other.NAME` is the measurement of the other side.

Beside them there are `count.TYPE`, the number of records of a type; `acknowledged.CLIENT` and `lost.CLIENT`, the
numbers of one producer; `stop.NAME.FIELD`, a field of the record at a stop; and `between.A.B`, the time from the stop A
to the stop B.
"""

_FAILOVER: Final = (
    "detection_ms", "election_ms", "takeover_ms", "reading_ms", "writing_ms", "propagation_ms", "outage_ms",
)  # fmt: skip
_TOTALS: Final = (
    "controllers", "leaderless_partitions", "clean_elections", "unclean_elections", "isr_shrinks", "isr_expands",
    "requests", "fence_hits", "let_through", "partitions",
)  # fmt: skip

_NOT_IN_KRAFT: Final = ("requests", "fence_hits", "let_through", "longest_wait_ms", "longest_event_ms")
"""Measurements of what a log of a KRaft quorum does not have. They are absent there, which is not zero."""
_SENT: Final = "sent"

OF_A_CLIENT: Final = ("acknowledged", "lost")
"""Measurements that each producer also has: `lost.producer-1`, and `lost.step-3` for the records of a step."""

MARK: Final = re.compile(r"\{([^{}\n]+)\}")
"""A marked value in a text."""


_MARK_OF_TIME: Final = re.compile(rf"(\b[Aa]fter\s+)?{MARK.pattern}(\s+(?:after|later)\b)?")
"""A marked value with the words that make a duration relative."""
_SENTENCE_ENDS: Final = re.compile(r"(^|[.?!])\s*$")
_SAME_MOMENT: Final = {"after": "at the same moment as", "later": "at the same moment"}


class AtStop(NamedTuple):
    """The record that was found for a stop, and the clock of the first record of its run in ms."""

    record: Envelope
    first_ms: float


Values = Mapping[str, Any]


def numbers_of(records: tuple[Envelope, ...], facts: Mapping[str, float]) -> dict[str, Any]:
    """Return every named measurement that one run has, and `count.TYPE` for each type of its records.

    Args:
        facts: numbers that are not in the records: what clients have seen, and the numbers of a sweep.
    """
    tables = measure("run", records)
    found: dict[str, Any] = {}
    if tables.failovers:
        found |= {name: getattr(tables.failovers[0], name) for name in _FAILOVER}
    found |= {name: getattr(tables.totals, name) for name in _TOTALS}
    found["session_ms"] = tables.settings.session_timeout_ms
    found["brokers"] = tables.settings.brokers
    found["longest_leaderless_ms"] = max((each.leaderless_ms for each in tables.partitions), default=0.0)
    waits = [each.data.queued_ms for each in records if isinstance(each.data, EventStarted)]
    took = [each.data.took_ms for each in records if isinstance(each.data, EventEnded)]
    found["longest_wait_ms"], found["longest_event_ms"] = max(waits, default=0.0), max(took, default=0.0)
    if tables.settings.mode == KAFKA_KRAFT:
        found |= dict.fromkeys(_NOT_IN_KRAFT)
    counts = Counter(each.type for each in records)
    found |= {f"count.{name}": counts[name] for name in PAYLOAD_BY_TYPE}
    found |= _numbers_of_producers(records)
    if _SENT in facts or tables.settings.mode != KAFKA_KRAFT:
        found["lost"] = sum(value for name, value in facts.items() if name.startswith("lost."))
    found |= facts
    return {name: value for name, value in found.items() if value is not None}


def _numbers_of_producers(records: tuple[Envelope, ...]) -> dict[str, int]:
    """Return the number of acknowledged records of each producer, and 0 for those that are lost."""
    acknowledged: Counter[str] = Counter()
    for each in records:
        if isinstance(each.data, ClientRequestEnded) and each.data.api == "Produce":
            acknowledged[each.data.client_id] += each.data.records if each.data.error == Errors.NONE.name else 0
    found = {f"acknowledged.{client}": count for client, count in acknowledged.items()}
    return found | {f"lost.{client}": 0 for client in acknowledged}


def numbers_so_far(records: tuple[Envelope, ...]) -> dict[str, Any]:
    """Return the measurements of the first failover of a run so far that further records cannot change."""
    failovers = measure("run", records).failovers if records else ()
    if not failovers or failovers[0].outage_ms is None:
        return {}
    found = {name: getattr(failovers[0], name) for name in _FAILOVER if name != "propagation_ms"}
    return {name: value for name, value in found.items() if value is not None}


def load_has_begun(records: tuple[Envelope, ...]) -> bool:
    """Whether the cluster of an experiment has started up, and its load has begun."""
    return any(isinstance(each.data, StepReached) and each.data.step == LOAD_BEGUN for each in records)


# ------------------------------------------------------------------ names


def check_name(name: str, lesson: Lesson) -> None:
    """Raise BadValue if a text or a condition names something that no run of the lesson can have."""
    first, *rest = name.split(".")
    if first == OTHER and rest and rest[0] not in ("stop", "between"):
        check_name(".".join(rest), lesson)
    elif first == "stop" and len(rest) >= 2:
        stop = lesson.stop(rest[0])
        if stop is None:
            raise one_of(rest[0], [each.name for each in lesson.stops], "stop of this lesson")
        check_path(stop.find, ".".join(rest[1:]))
    elif first == "between" and len(rest) == 2:
        for each in rest:
            if lesson.stop(each) is None:
                raise one_of(each, [stop.name for stop in lesson.stops], "stop of this lesson")
    elif first in OF_A_CLIENT and rest:
        if (client := ".".join(rest)) not in (known := _producers_of(lesson)):
            raise one_of(client, known or ("none",), "producer of this lesson")
    elif first == "count" and len(rest) == 1:
        if rest[0] not in PAYLOAD_BY_TYPE:
            raise one_of(rest[0], sorted(PAYLOAD_BY_TYPE), "record type")
    elif name not in NAMED:
        forms = ("stop.NAME.FIELD", "between.STOP.STOP", "count.TYPE", "lost.CLIENT", "other.NAME")
        raise one_of(name, (*NAMED, *forms), "measurement")


def _producers_of(lesson: Lesson) -> list[str]:
    """Return the client ids of the producers of both sides."""
    experiments = [each for each in (lesson.experiment, lesson.other.experiment) if each is not None]
    loads = max((each.load.producers for each in experiments), default=0)
    steps = {
        number
        for each in experiments
        for number, step in enumerate(each.steps, 1)
        if step.action is not None and step.action.name == "produce"
    }
    return [f"producer-{number}" for number in range(1, loads + 1)] + [f"step-{number}" for number in sorted(steps)]


def value_of(name: str, numbers: Values, other: Values, stops: Mapping[str, AtStop]) -> Any:
    """Return the value of a name. Raises BadValue if the run does not have it.

    Args:
        numbers: `numbers_of` the first side.
        other: `numbers_of` the other side.
        stops: the stops that were found, of both sides.
    """
    first, *rest = name.split(".")
    if first == "stop":
        return _field(rest[0], ".".join(rest[1:]), stops)
    if first == "between":
        earlier, later = (_field(each, "at_ms", stops) for each in rest)
        return later - earlier
    values, key = (other, ".".join(rest)) if first == OTHER else (numbers, name)
    if key not in values:
        raise BadValue(f"{name} has no value in this run")
    return values[key]


def _field(stop: str, path: str, stops: Mapping[str, AtStop]) -> Any:
    if stop not in stops:
        raise BadValue(f"the stop {stop} was not reached in this run")
    found = list(values_at(stops[stop].record, path, stops[stop].first_ms))
    if not found:
        raise BadValue(f"the record at the stop {stop} has no {path}")
    return found[0]


# ------------------------------------------------------------------ words


def shown(name: str, value: Any) -> str:
    """Write a value for a text: times with their unit, numbers with thousands, lists with commas."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if name.endswith("_share"):
        return f"{digits(value)} %"
    if name.endswith(".at_ms"):
        return moment(value)
    if _is_duration(name):
        return duration(value)
    return digits(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _is_duration(name: str) -> bool:
    return (name.endswith("_ms") and not name.endswith(".at_ms")) or name.startswith("between.")


def fill(text: str, value: Callable[[str], Any], missing: str | None = None) -> str:
    """Return a text with its marked values filled in.

    A duration of zero before "after" or "later", or behind "after", becomes "at the same moment" or "at once".

    Args:
        value: returns the value of a name; raises BadValue.
        missing: the text for a value that the run does not have; without it BadValue is raised.
    """

    def replace(match: re.Match[str]) -> str:
        before, name, behind = match.groups(default="")
        try:
            found = value(name)
        except BadValue:
            if missing is None:
                raise
            return f"{before}{missing}{behind}"
        if (before or behind) and _is_duration(name) and not micros(found):
            words = f"{AT_ONCE}{behind}" if before else _SAME_MOMENT[behind.strip()]
            return words[0].upper() + words[1:] if _SENTENCE_ENDS.search(text[: match.start()]) else words
        return f"{before}{shown(name, found)}{behind}"

    return _MARK_OF_TIME.sub(replace, text)
