"""Puts a run in one order: the faults, what brokers did, what clients logged, and which answers they received."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from understudy.clusters.virtual.world import LogLine
from understudy.foundation.eventlog import records
from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import moment
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.history.wire_records import NO_ANSWER, NO_ERROR, Assigned, Commit, Sent
from understudy.testing.simulated_tests.outcome import Problem
from understudy.trials.seeds.story_sentences import story_sentence

MOST_LINES: Final = 30
"""Number of lines of a story that is cut to what matters."""

_BEFORE_MS: Final = 2_000
_AFTER_MS: Final = 4_000
"""Lines this near to a fault or a failure matter more: before it, and after it."""
_FAR: Final = 1.5
"""The weight that other lines lack."""
_ALIKE_WITHIN_MS: Final = 10_000
"""Lines of one process that differ in numbers alone are shown once in this time."""
_MOST_TEXT: Final = 160
_NUMBER: Final = re.compile(r"\d+")

_MARKS: Final = 4
_DECISIONS: Final = 3
_TROUBLE: Final = 2
_ORDINARY: Final = 1
_DETAIL: Final = 0

_DECIDED: Final = (
    records.ControllerElected,
    records.LeadershipWritten,
    records.LeadershipNotWritten,
    records.SessionExpiredRecord,
)
_DETAILS: Final = (
    records.RequestSent,
    records.LeaderAndIsrApplied,
    records.StopReplicaApplied,
    records.IsrProposed,
    records.IsrResult,
    records.ContextLoaded,
    records.ControllerReady,
    records.ZkWriteDone,
    records.WatchFiredRecord,
    records.MetadataUpdated,
    records.FenceHit,
    records.SessionOpened,
    records.GroupsLoaded,
    records.GroupsUnloaded,
)


class StoryLine(msgspec.Struct):
    """One line of a story.

    Attributes:
        at_ms: virtual time since the run began.
        who: the node.
        weight: how much it matters, from `_DETAIL` to `_MARKS`.
        more: number of later lines that it stands for.
        until_ms: time of the last of them.
    """

    at_ms: float
    who: str
    text: str
    weight: int
    more: int = 0
    until_ms: float = 0.0

    def __str__(self) -> str:
        text = self.text.partition("\n")[0]
        if len(text) > _MOST_TEXT:
            text = f"{text[:_MOST_TEXT]}…"
        more = f" (and {self.more} more like it until {moment(self.until_ms)})" if self.more else ""
        return f"{moment(self.at_ms):>11}  {self.who:<10}  {text}{more}"


class Story(msgspec.Struct, frozen=True):
    """The lines of a run, in order of time; lines alike are one."""

    lines: tuple[StoryLine, ...]

    def cut(self, most: int = MOST_LINES) -> tuple[tuple[str, ...], int]:
        """Return what matters most, around the faults and the failures, and the number of lines that are left out.

        Args:
            most: the number of lines to show.
        """
        marks = [line.at_ms for line in self.lines if line.weight == _MARKS]
        ranked = sorted(range(len(self.lines)), key=lambda place: self._value(place, marks), reverse=True)
        kept = sorted(ranked[:most])
        return tuple(str(self.lines[place]) for place in kept), len(self.lines) - len(kept)

    def _value(self, place: int, marks: Sequence[float]) -> tuple[float, float]:
        """How much a line matters: by its weight, less far from faults and failures, and the nearer the more."""
        line = self.lines[place]
        is_near = any(mark - _BEFORE_MS <= line.at_ms <= mark + _AFTER_MS for mark in marks)
        distance = min((abs(line.at_ms - mark) for mark in marks), default=0.0)
        return (line.weight if is_near else line.weight - _FAR, -distance)


def story_of(
    envelopes: Sequence[Envelope], logged: Sequence[LogLine], wire: WireHistory, problems: Sequence[Problem]
) -> Story:
    """Return the story of a run that has ended.

    Args:
        envelopes: the records of the brokers' event logs.
        logged: what the user's processes have logged.
    """
    lines = [
        *_of_brokers(envelopes),
        *(_of_log_line(line) for line in logged),
        *_of_wire(wire),
        *(StoryLine(problem.at_ms, "FAILURE", problem.text, _MARKS) for problem in problems),
    ]
    return Story(tuple(_without_repeats(sorted(lines, key=lambda line: line.at_ms))))


def _of_brokers(envelopes: Iterable[Envelope]) -> Iterator[StoryLine]:
    for each in envelopes:
        record = _without_own_topics(each)
        sentence = story_sentence(record)
        if sentence is None or isinstance(record.data, records.LogSeen):
            continue
        if isinstance(record.data, records.FaultInjected):
            yield StoryLine(record.mono_ms, "fault", sentence, _fault_weight(record.data))
        else:
            yield StoryLine(record.mono_ms, record.node, sentence, _weight(record))


def _without_own_topics(record: Envelope) -> Envelope:
    """Leave the partitions of the brokers' own topics out of a record of leaders, unless it has no others."""
    data = record.data
    if not isinstance(data, records.LeadershipWritten):
        return record
    partitions = tuple(each for each in data.partitions if not each.topic.startswith("__"))
    if not partitions:
        return record
    return msgspec.structs.replace(record, data=msgspec.structs.replace(data, partitions=partitions))


def _fault_weight(data: records.FaultInjected) -> int:
    return _TROUBLE if data.fault in {"heal", "resume", "start", "exit"} else _MARKS


def _weight(record: Envelope) -> int:
    data = record.data
    if isinstance(data, records.LeadershipWritten) and all(each.topic.startswith("__") for each in data.partitions):
        return _DETAIL
    if isinstance(data, _DECIDED):
        return _DECISIONS
    return _DETAIL if isinstance(data, _DETAILS) else _ORDINARY


def _of_log_line(line: LogLine) -> StoryLine:
    weight = _DECISIONS if line.level in {"WARNING", "ERROR", "CRITICAL"} else _TROUBLE
    return StoryLine(line.at_ms, line.process, f"{line.level} {line.logger}: {line.text}", weight)


def _of_wire(wire: WireHistory) -> Iterator[StoryLine]:
    decoder = wire.decoded()
    yield from _of_sends(decoder.sent)
    for commit in decoder.commits:
        yield _of_commit(commit)
    for assigned in decoder.assigned:
        yield _of_assignment(assigned)


def _of_sends(sent: Sequence[Sent]) -> Iterator[StoryLine]:
    """Yield a line for each batch that was refused or has no answer, and one for each that was sent again."""
    batches: dict[tuple[int, str, int], list[Sent]] = {}
    for each in sent:
        batches.setdefault((each.order, each.topic, each.partition), []).append(each)
    for (_, topic, partition), batch in batches.items():
        first = batch[0]
        if first.is_acknowledged and first.attempt == 1:
            continue
        count = f"{len(batch)} records" if len(batch) > 1 else "a record"
        what = f"sends {count} to {topic}-{partition} at {first.broker}, attempt {first.attempt}: {_answer(first)}"
        weight = _ORDINARY if first.is_acknowledged else _TROUBLE
        yield StoryLine(first.sent_ms, first.client.process, what, weight)


def _of_commit(commit: Commit) -> StoryLine:
    what = f"commits offset {commit.offset} of {commit.topic}-{commit.partition} for group {commit.group}"
    weight = _DETAIL if commit.error == NO_ERROR else _TROUBLE
    return StoryLine(commit.sent_ms, commit.client.process, f"{what}: {_answer(commit)}", weight)


def _of_assignment(assigned: Assigned) -> StoryLine:
    partitions = ", ".join(f"{topic}-{number}" for topic, number in assigned.partitions) or "no partitions"
    what = f"is assigned {partitions} in generation {assigned.generation} of group {assigned.group}"
    return StoryLine(assigned.at_ms, assigned.client.process, what, _DECISIONS)


def _answer(each: Sent | Commit) -> str:
    if each.ended_ms is None or each.error == NO_ANSWER:
        return "no answer"
    return "done" if each.error == NO_ERROR else each.error


def _without_repeats(lines: Iterable[StoryLine]) -> Iterator[StoryLine]:
    """Yield lines without those that repeat an earlier one of the same process, apart from their numbers."""
    shown: dict[tuple[str, str], StoryLine] = {}
    kept: list[StoryLine] = []
    for line in lines:
        key = line.who, _NUMBER.sub("0", line.text)
        first = shown.get(key)
        if (
            first is not None
            and line.weight < _MARKS
            and line.at_ms - max(first.at_ms, first.until_ms) < _ALIKE_WITHIN_MS
        ):
            first.more += 1
            first.until_ms = line.at_ms
        else:
            shown[key] = line
            kept.append(line)
    yield from kept
