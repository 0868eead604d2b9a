"""Judges what a client did across a fault, from the lines that its driver printed and from what the log holds.

The functions are pure: a time is when a line arrived, in ms of one monotonic clock.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from devtools.report_cards.events import Admin, End, Event, Failed, Line, Read, Ready, Sent

E = TypeVar("E", bound=Event)

RECOVERY_LIMIT_S = 60
"""Maximum time from the end of the scene until a client continues."""
_SHOWN = 5
_STEADY = 20


class Record(NamedTuple):
    """A record of the log, as an independent reader has found it."""

    offset: int
    value: int


class Observed(msgspec.Struct, frozen=True):
    """What was seen of one client in one scene.

    Attributes:
        marks_ms: when the faults were injected and undone, at least one.
        log: the records of the partition from its beginning to its end.
        trouble: what went wrong with the driver itself, such as a line that is no event.
    """

    lines: tuple[Line, ...]
    marks_ms: tuple[int, ...]
    log: tuple[Record, ...]
    trouble: tuple[str, ...] = ()


class Card(msgspec.Struct, frozen=True):
    """The judgement of one client in one scene.

    Attributes:
        admin_ms: the longest time from a change of the scene to the end of the first attempt that began after it and
            succeeded; None if none succeeded after the last change.
        admin_errors: the errors of the attempts that ended after the first change, with their numbers.
        sent_ms, read_ms: the longest time without an acknowledgement, and without a record that was read, that ended
            after the first change; None if there was none after the last change.
        failed: the errors of the records that the client gave up, with their numbers.
        without: the parts that the driver does not have: `("consumer",)`, or nothing.
        reasons: why it failed, in words; empty if it passed.
    """

    client: str
    version: str
    admin_ms: int | None
    admin_errors: dict[str, int]
    sent_ms: int | None
    failed: dict[str, int]
    read_ms: int | None
    reasons: tuple[str, ...]
    without: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge(observed: Observed, client: str) -> Card:
    """Judge one client in one scene.

    Args:
        client: its name, for a driver that did not become ready.
    """
    lines, marks = observed.lines, observed.marks_ms
    ready = next((line.event for line in lines if isinstance(line.event, Ready)), None)
    admin_ms = recovery_ms(lines, marks)
    sent_ms = longest_pause_ms(_times(lines, Sent), marks)
    read_ms = longest_pause_ms(_times(lines, Read), marks)
    reasons = [*observed.trouble]
    if ready is None:
        reasons.append("the driver did not become ready")
    else:
        never = f"within {RECOVERY_LIMIT_S} s"
        reasons += [f"the admin client never created a topic again {never}"] if admin_ms is None else []
        reasons += [f"the producer was never acknowledged again {never}"] if sent_ms is None else []
        if read_ms is None and "consumer" not in ready.without:
            reasons.append(f"the consumer never read again {never}")
        reasons += wrong_records(lines, observed.log)
        reasons += [] if any(isinstance(line.event, End) for line in lines) else ["the driver did not end"]
    return Card(
        client=client if ready is None else ready.client,
        version="" if ready is None else ready.version,
        admin_ms=admin_ms,
        admin_errors=_counted(
            line.event.error or "unnamed"
            for line in lines
            if isinstance(line.event, Admin) and not line.event.ok and line.at_ms >= marks[0]
        ),
        sent_ms=sent_ms,
        failed=_counted(each.error for each in _events(lines, Failed)),
        read_ms=read_ms,
        reasons=tuple(reasons),
        without=() if ready is None else ready.without,
    )


def recovery_ms(lines: Sequence[Line], marks_ms: Sequence[int]) -> int | None:
    """The longest time from a mark to the end of the first attempt of the admin client after it that succeeded."""
    attempts = [
        (line.at_ms - line.event.took_ms, line.at_ms)
        for line in lines
        if isinstance(line.event, Admin) and line.event.ok
    ]
    longest = 0
    for mark in marks_ms:
        ended = min((end for begun, end in attempts if begun >= mark), default=None)
        if ended is None:
            return None
        longest = max(longest, ended - mark)
    return longest


def longest_pause_ms(times_ms: Sequence[int], marks_ms: Sequence[int]) -> int | None:
    """The longest time between two events that ended after the first mark; None without one after the last mark."""
    if not times_ms or times_ms[-1] < marks_ms[-1]:
        return None
    before = [at for at in times_ms if at < marks_ms[0]][-1:] or [marks_ms[0]]
    seen = [*before, *(at for at in times_ms if at >= marks_ms[0])]
    return max(later - earlier for earlier, later in itertools.pairwise(seen))


def wrong_records(lines: Sequence[Line], log: Sequence[Record]) -> list[str]:
    """Describe wrong records: lost, doubled, reordered, read and not in the log, skipped, read twice.

    An idempotent producer may neither double nor reorder, and a consumer that only goes forward reads each offset once.
    """
    values = {record.offset: record.value for record in log}
    in_log = Counter(values.values())
    lost = [
        sent.value
        for sent in _events(lines, Sent)
        if (in_log[sent.value] == 0 if sent.offset < 0 else values.get(sent.offset) != sent.value)
    ]
    first = list(dict.fromkeys(value for _, value in sorted(values.items())))
    reads = _events(lines, Read)
    read = Counter(each.offset for each in reads)
    furthest = max(read, default=-1)
    findings = {
        "lost, although acknowledged": lost,
        "doubled in the log": [value for value, count in sorted(in_log.items()) if count > 1],
        "reordered in the log": [later for earlier, later in itertools.pairwise(first) if later < earlier],
        "read, but not in the log": [each.value for each in reads if values.get(each.offset) != each.value],
        "skipped by the consumer": [
            record.value for record in log if record.offset < furthest and not read[record.offset]
        ],
        "read twice": [values.get(offset, offset) for offset, count in sorted(read.items()) if count > 1],
    }
    return [f"{len(found)} records {what}: {_listed(found)}" for what, found in findings.items() if found]


def has_recovered(lines: Sequence[Line], marks_ms: Sequence[int]) -> bool:
    """Whether the admin client, the producer and the consumer all went on after the last mark."""
    last = marks_ms[-1]
    is_created = recovery_ms(lines, [last]) is not None
    return is_created and all(times and times[-1] >= last for times in _times_of_records(lines))


def is_steady(lines: Sequence[Line]) -> bool:
    """Whether the driver has created a topic, and has sent and read some records: a fault may come now."""
    created = any(isinstance(line.event, Admin) and line.event.ok for line in lines)
    return created and all(len(times) >= _STEADY for times in _times_of_records(lines))


def _times_of_records(lines: Sequence[Line]) -> list[list[int]]:
    """The times of the acknowledgements and, if the driver has a consumer, of the records that it read."""
    has_consumer = not any("consumer" in ready.without for ready in _events(lines, Ready))
    return [_times(lines, Sent), *([_times(lines, Read)] if has_consumer else [])]


def _events(lines: Iterable[Line], kind: type[E]) -> list[E]:
    return [line.event for line in lines if isinstance(line.event, kind)]


def _times(lines: Iterable[Line], kind: type[E]) -> list[int]:
    return [line.at_ms for line in lines if isinstance(line.event, kind)]


def _counted(errors: Iterable[str]) -> dict[str, int]:
    return dict(Counter(errors).most_common())


def _listed(values: Sequence[int]) -> str:
    shown = ", ".join(map(str, values[:_SHOWN]))
    return f"{shown}, …" if len(values) > _SHOWN else shown
