"""Judges what was delivered to consumers, and what they have processed and committed."""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from understudy.checks.client_history import ClientHistory, Poll, PollsReadOn
from understudy.checks.facts import name_of
from understudy.foundation.times import moment
from understudy.testing.simulated_tests.history import history_words as words
from understudy.testing.simulated_tests.history.history_checks import Evidence
from understudy.testing.simulated_tests.history.wire_records import (
    NO_ERROR,
    Assigned,
    Commit,
    Delivered,
    LogRecord,
    Partition,
    Position,
    Processed,
)

_Place: TypeAlias = tuple[Partition, int]
"""A partition and an offset."""

_MAY_BE_STORED = frozenset({NO_ERROR, ""})


def partition_of(each: Delivered | Processed | Commit) -> Partition:
    return each.topic, each.partition


@dataclass(slots=True)
class GroupEvidence:
    """What a run has shown about one group.

    Attributes:
        positions: the first offset that a member has fetched from each partition.
        delivered: by partition and offset, the deliveries of a record to members, in their order.
        marked: likewise the marks that the record is processed.
        marked_topics: the topics of which a service of the group has marked records as processed.
    """

    group: str
    evidence: Evidence
    commits: Sequence[Commit]
    positions: Mapping[Partition, Position]
    delivered: dict[_Place, list[Delivered]] = field(default_factory=lambda: defaultdict(list))
    marked: dict[_Place, list[Processed]] = field(default_factory=lambda: defaultdict(list))
    marked_topics: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for each in self.evidence.delivered:
            if each.group == self.group:
                self.delivered[partition_of(each), each.offset].append(each)
        groups_of: defaultdict[tuple[_Place, str, int], set[str | None]] = defaultdict(set)
        for each in self.evidence.delivered:
            place = partition_of(each), each.offset
            groups_of[place, each.client.process, each.client.incarnation].add(each.group)
        for mark in self.evidence.marked:
            place = partition_of(mark), mark.offset
            readers = groups_of.get((place, mark.process, mark.incarnation))
            if mark.group == self.group or (
                mark.group is None and (self.group in readers if readers else place in self.delivered)
            ):
                self.marked[place].append(mark)
                self.marked_topics.add(mark.topic)

    @property
    def topics(self) -> set[str]:
        """The topics that members were assigned partitions of, or have read."""
        mine = (each for each in self.evidence.assigned if each.group == self.group)
        assigned = {topic for each in mine for topic, _ in each.partitions}
        return assigned | {topic for (topic, _), _ in self.delivered}

    def reached(self, place: _Place) -> int | None:
        """Return the `order` at which a record was first processed, or delivered if nothing is marked of its topic."""
        found = self.marked if place[0][0] in self.marked_topics else self.delivered
        return found[place][0].order if place in found else None


# ------------------------------------------------------------------ in order


def given_out_of_order(evidence: Evidence, topic: str | None, *, seeks: bool) -> list[str]:
    """Return which records a consumer was given, or has marked, after a later one of the partition (H5)."""
    marked = {(mark.process, mark.incarnation, partition_of(mark)) for mark in evidence.marked}
    history = ClientHistory()
    judged: list[Delivered | Processed] = []
    assignments: dict[object, int] = {}
    last: dict[object, Delivered] = {}
    latest: dict[tuple[str, int, _Place], Delivered] = {}
    rewinds: defaultdict[object, int] = defaultdict(int)
    consumers = _Consumers(evidence.assigned)
    everything: list[Delivered | Processed] = [*evidence.delivered, *evidence.marked]
    for each in sorted(everything, key=lambda each: each.order):
        partition = partition_of(each)
        if topic is not None and each.topic != topic:
            continue
        if isinstance(each, Delivered):
            process = each.client.process, each.client.incarnation
            latest[*process, (partition, each.offset)] = each
            if (*process, partition) in marked:
                continue
            consumer: object = (consumers.of(each), partition)
            before = last.get(consumer)
            if before is not None and each.offset <= before.offset and each.order != before.order:
                if each.sent_order < before.order:
                    # It was requested before the other answer came; a client drops what it has already.
                    continue
                rewinds[consumer] += seeks
            last[consumer] = each
        else:
            delivery = latest.get((each.process, each.incarnation, (partition, each.offset)))
            name = None if delivery is None else consumers.of(delivery)
            consumer = (name, each.process, each.incarnation, each.group), partition
        assignment = assignments.setdefault((consumer, rewinds[consumer]), len(assignments))
        judged.append(each)
        # Compacted means here that offsets may be missing: control records and aborted ones are.
        history.compacted.add(partition)
        history.polls.append(Poll(str(consumer), assignment, partition, ((each.offset, ""),)))
    found = [int(witness.where.split()[1]) for witness in PollsReadOn().contradictions(history)]
    return [_out_of_order(judged[_poll_before(history, number)], judged[number]) for number in found]


class _Consumers:
    """Numbers consumers and their assignments."""

    def __init__(self, assigned: Sequence[Assigned]) -> None:
        self._assigned: defaultdict[object, list[int]] = defaultdict(list)
        for each in assigned:
            self._assigned[each.group, _member(each)].append(each.order)

    def of(self, each: Delivered) -> object:
        """Return what stands for the consumer in one assignment: a member's SyncGroup answer, or a connection."""
        if not each.member:
            return each.client, each.connection
        key = each.group, _member(each)
        return key, bisect(self._assigned[key], each.sent_order)


def _poll_before(history: ClientHistory, number: int) -> int:
    poll = history.polls[number]
    return next(
        place
        for place in range(number - 1, -1, -1)
        if history.polls[place][:3] == (poll.consumer, poll.assignment, poll.partition)
    )


def _out_of_order(before: Delivered | Processed, after: Delivered | Processed) -> str:
    name = name_of(partition_of(after))
    if isinstance(after, Processed):
        return (
            f"{name}: {after.process}/{after.incarnation} has processed offset {after.offset} at "
            f"{moment(after.at_ms)}, after offset {before.offset} at {moment(_time_of(before))}"
        )
    text = (
        f"{name}: {reader(after)} was given offset {after.offset}, the {words.content(after)}, at "
        f"{moment(after.received_ms)}, after offset {before.offset} at {moment(_time_of(before))}"
    )
    if after.fetch_offset <= before.offset:
        text += f": it has fetched again from offset {after.fetch_offset} on at {moment(after.sent_ms)}"
    return text


def _time_of(each: Delivered | Processed) -> float:
    return each.received_ms if isinstance(each, Delivered) else each.at_ms


def reader(each: Delivered) -> str:
    """Return which consumer was given a record."""
    if not each.member:
        return str(each.client)
    return f"{each.client}, member {each.member} in generation {each.generation} of {each.group}"


# ------------------------------------------------------------------ nothing lost


def not_reached(group: GroupEvidence, topic: str | None) -> list[str]:
    """Return which acknowledged records were not delivered to a group, or not processed if its services mark them."""
    evidence = group.evidence
    topics = group.topics if topic is None else {topic}
    found: list[str] = []
    for send, attempts in evidence.sends.items():
        partition = attempts[0].topic, attempts[0].partition
        log = evidence.logs.get(partition)
        if partition[0] not in topics or log is None or not any(each.is_acknowledged for each in attempts):
            continue
        position = group.positions.get(partition)
        places = [place for place in evidence.places.get(send, ()) if position is None or place >= position.offset]
        if not places or any(group.reached((partition, place)) is not None for place in places):
            continue
        record = evidence.records[partition, places[0]]
        if record.is_aborted or (log.is_compacted and evidence.is_superseded(partition, record)):
            continue
        found.append(
            f"{name_of(partition)}, offset {places[0]}: the {words.content(record)} "
            f"{_not_reached(group, partition, record)}. Attempts: {words.attempts(attempts)}"
        )
    return found


def _not_reached(group: GroupEvidence, partition: Partition, record: LogRecord) -> str:
    place = partition, record.offset
    if place in group.delivered:
        given = group.delivered[place][-1]
        text = f"was delivered to {reader(given)} at {moment(given.received_ms)}, and was never marked as processed"
    else:
        text = f"was never delivered to a member of {group.group}, {_progress(group, partition)}"
    passing = next((each for each in _commits(group, partition) if each.offset > record.offset), None)
    return text if passing is None else f"{text}; {_commit(passing)}"


def _progress(group: GroupEvidence, partition: Partition) -> str:
    offsets = [offset for each, offset in group.delivered if each == partition]
    if offsets:
        last = group.delivered[partition, max(offsets)][-1]
        return f"which was given offset {last.offset} as the last one, at {moment(last.received_ms)}"
    assigned = [each for each in group.evidence.assigned if each.group == group.group and partition in each.partitions]
    if not assigned:
        return "which was given nothing of the partition: no member was assigned it"
    return (
        f"which was given nothing of the partition, although {assigned[-1].client}, member {assigned[-1].member}, was "
        f"assigned it in generation {assigned[-1].generation} at {moment(assigned[-1].at_ms)}"
    )


# ------------------------------------------------------------------ once


def processed_twice(group: GroupEvidence, topic: str | None) -> list[str]:
    """Return which records a group has processed more than once."""
    found: list[str] = []
    for place, given in group.delivered.items():
        (name, number), offset = place
        if topic not in (None, name):
            continue
        if name in group.marked_topics:
            times = [
                f"by {each.process}/{each.incarnation} at {moment(each.at_ms)}" for each in group.marked.get(place, ())
            ]
        elif len(given) == 1:
            continue
        else:
            times = [
                f"by {reader(each)}, which was given it at {moment(each.received_ms)} and has sent the commit of "
                f"offset {commit.offset} at {moment(commit.sent_ms)} ({words.outcome(commit)})"
                for each, commit in _processed_by_commits(group, given)
            ]
        if len(times) > 1:
            text = f"{name_of((name, number))}, offset {offset}: the {words.content(given[0])} was processed"
            found.append(f"{text} {len(times)} times: {'; '.join(times)}")
    return found


def _processed_by_commits(group: GroupEvidence, given: Sequence[Delivered]) -> Iterator[tuple[Delivered, Commit]]:
    """Yield the deliveries of one record after which the same member has committed a later offset.

    A commit shows that only while the member keeps the partition, and until the record is delivered to it again; a
    commit that was refused shows it as well.
    """
    for number, each in enumerate(given):
        if any(before.order > each.sent_order and _member(before) == _member(each) for before in given[:number]):
            # It was requested before the other answer came; a client drops what it has already.
            continue
        again = (
            later.order
            for later in given[number + 1 :]
            if _member(later) == _member(each) and later.sent_order > each.order
        )
        end = min([*again, *_ends(group, each)], default=None)
        for commit in group.commits:
            if partition_of(commit) != partition_of(each):
                continue
            is_in_time = commit.order > each.order and (end is None or commit.order < end)
            if is_in_time and commit.offset > each.offset and _member(commit) == _member(each):
                yield each, commit
                break


def _ends(group: GroupEvidence, given: Delivered) -> Iterator[int]:
    """Yield when the member had an assignment without the partition, after a delivery."""
    for each in group.evidence.assigned:
        is_later = each.order > given.order and each.group == group.group and _member(each) == _member(given)
        if is_later and partition_of(given) not in each.partitions:
            yield each.order


def _member(each: Delivered | Commit | Assigned) -> tuple[object, str]:
    return each.client, each.member


# ------------------------------------------------------------------ committed is processed


def committed_too_early(group: GroupEvidence) -> list[str]:
    """Return which commits are ahead of what was processed or delivered."""
    found: list[str] = []
    for partition in dict.fromkeys(partition_of(each) for each in group.commits):
        log, position = group.evidence.logs.get(partition), group.positions.get(partition)
        if log is None or log.may_have_lost or position is None:
            continue
        waiting = [each for each in log.records if each.offset >= position.offset and not each.is_aborted]
        place = 0
        for commit in _commits(group, partition):
            early: list[LogRecord] = []
            while place < len(waiting) and waiting[place].offset < commit.offset:
                reached = group.reached((partition, waiting[place].offset))
                if reached is None or reached > commit.order:
                    early.append(waiting[place])
                place += 1
            if early:
                found.append(f"{name_of(partition)}: {_commit(commit)}, {_too_early(group, partition, early)}")
            elif log.end is not None and commit.offset > log.end:
                found.append(f"{name_of(partition)}: {_commit(commit)}, and the log ends before offset {log.end}")
    return found


def _too_early(group: GroupEvidence, partition: Partition, early: Sequence[LogRecord]) -> str:
    first = early[0]
    what = "processed" if partition[0] in group.marked_topics else "delivered to a member"
    text = f"before offset {first.offset}, the {words.content(first)}, was {what}"
    if len(early) > 1:
        text += f", and {len(early) - 1} more up to offset {early[-1].offset}"
    place = partition, first.offset
    if partition[0] in group.marked_topics and place in group.marked:
        mark = group.marked[place][0]
        return f"{text}: {mark.process}/{mark.incarnation} has processed it at {moment(mark.at_ms)}"
    if place in group.delivered:
        given = group.delivered[place][0]
        text += f": it was delivered to {reader(given)} at {moment(given.received_ms)}"
        return text + (", and never marked as processed" if partition[0] in group.marked_topics else "")
    return f"{text}: it never was"


def _commits(group: GroupEvidence, partition: Partition) -> list[Commit]:
    """Return the commits of a partition's offset that may be stored, in the order of the requests."""
    return [each for each in group.commits if partition_of(each) == partition and each.error in _MAY_BE_STORED]


def _commit(commit: Commit) -> str:
    who = f"{commit.client}, member {commit.member}" if commit.member else str(commit.client)
    return (
        f"offset {commit.offset} was committed for {commit.group} by {who} at {moment(commit.sent_ms)} "
        f"({words.outcome(commit)})"
    )
