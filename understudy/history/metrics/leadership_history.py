"""Computes the `PartitionNumbers` rows of a run, as `metric_tables` defines them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import msgspec

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    FaultInjected,
    Leadership,
    PointReached,
    ProcessExiting,
    TopicsChanged,
)
from understudy.history.metrics.instants import Instant, instant, within_us
from understudy.history.metrics.metric_tables import PartitionNumbers
from understudy.history.metrics.silences import Silences
from understudy.history.reading.run_records import At, Key, RunRecords, StateRecord, broker_node, firsts, millis

UNCLEAN = "unclean"
NO_ELECTION = ("alter-partition", "isr-removal")
DOWN_FAULTS = ("kill", "power_loss", "pause", "crash")
UP_FAULTS = ("resume", "continue")
"""Faults that bring a node up again; older runs call `resume` `continue`."""

_LOADED = "loaded"
_DELETED = "deleted"


class LeadershipHistory:
    """The states of all partitions of a run, folded record by record, so that a long history takes no more memory.

    Attributes:
        records_by_why: the number of `LeadershipWritten` records by their reason.
        written_by_why: the number of states in these records.
        elected_by_why: the number of these states that count as an election.
    """

    def __init__(self, run: RunRecords, end: Instant) -> None:
        self.records_by_why: Counter[str] = Counter()
        self.written_by_why: Counter[str] = Counter()
        self.elected_by_why: Counter[str] = Counter()
        self._end = end
        self._down = down_times(run)
        self._topics: dict[str, dict[int, _PartitionHistory]] = {}
        self._leaders: dict[frozenset[int], frozenset[int]] = {}
        """Each set of leaders once: most partitions share a few."""
        self._deleted: dict[str, _State] = {}
        """The newest deletion of each topic. The history of a partition with a later first state begins with it."""
        self._run = run
        self._most_us = run.clocks.most_us
        self._ended_spans: list[LeadershipSpan] | None = None

    @classmethod
    def of(cls, run: RunRecords, end: Instant) -> LeadershipHistory:
        """Fold every state of the run, until its `end`."""
        history = cls(run, end)
        for record in run.states:
            history._add(record)
        return history

    @classmethod
    def spans(cls, run: RunRecords, end: Instant) -> Iterator[LeadershipSpan]:
        """Fold every state of the run, and yield each as soon as the next one of its partition is known."""
        history = cls(run, end)
        ended = history._ended_spans = []
        for record in run.states:
            history._add(record)
            yield from ended
            ended.clear()
        for partitions in history._topics.values():
            for partition in partitions.values():
                if partition.last is not None:
                    leaderless = history._leaderless(partition.last)
                    history._end_span(partition, end.us, leaderless, is_last=True)
        yield from ended

    def is_down(self, node: str, us: int) -> bool:
        """Return whether a node was down at some time."""
        return any(spell.fell.us <= us < spell.up.us for spell in self._down.get(node, ()))

    def rows(self) -> tuple[PartitionNumbers, ...]:
        """Return one row per partition, sorted."""
        return tuple(
            self._row(topic, partition, history)
            for topic, partitions in sorted(self._topics.items())
            for partition, history in sorted(partitions.items())
        )

    def last_state(self, topic: str, partition: int) -> LastState | None:
        """Return the last state of a partition that is not a deletion; None if there is none."""
        history = self._topics[topic][partition]
        led = history.led if history.last is None or history.last.leadership is None else history.last
        if led is None:
            return None
        until = history.led_until if led is history.led else self._end.us
        return LastState(history.leaders, led.writer_epoch, led.key.us, max(led.key.us, until))

    def _add(self, record: StateRecord) -> None:
        data = record.read()
        if isinstance(data, TopicsChanged):
            for topic in data.deleted:
                self._delete(topic, _State(record.key, record.controller_epoch, _DELETED, None))
            return
        if isinstance(data, ContextLoaded):
            for loaded in data.partitions:
                self._next(loaded, _State(record.key, data.epoch, _LOADED, loaded))
            return
        self.records_by_why[data.why] += 1
        self.written_by_why[data.why] += len(data.partitions)
        for written in data.partitions:
            state = _State(record.key, written.controller_epoch, data.why, written)
            history = self._next(written, state)
            history.writes += 1

    def _delete(self, topic: str, state: _State) -> None:
        before = self._deleted.get(topic)
        if before is None or state.writer_epoch >= before.writer_epoch:
            self._deleted[topic] = state
        for history in self._topics.get(topic, {}).values():
            self._append(history, state)

    def _next(self, named: Leadership, state: _State) -> _PartitionHistory:
        partitions = self._topics.setdefault(named.topic, {})
        history = partitions.get(named.partition)
        if history is None:
            history = partitions[named.partition] = _PartitionHistory(self._deleted.get(named.topic))
        self._append(history, state)
        return history

    def _append(self, history: _PartitionHistory, state: _State) -> None:
        before = history.last
        if before is not None:
            if state.writer_epoch < before.writer_epoch:
                return
            leaderless = self._leaderless(before, state.key)
            if leaderless is not _NOT_LEADERLESS:
                history.leaderless_us += leaderless.us
                history.leaderless_within_us += leaderless.within_us
            self._end_span(history, state.key.us, leaderless)
        history.last, history.is_elected = state, False
        now = state.leadership
        was = before.leadership if before is not None else None
        if now is None:
            if was is not None:
                history.led, history.led_until = before, state.key.us
            return
        if now.leader not in history.leaders:
            leaders = history.leaders | {now.leader}
            history.leaders = self._leaders.setdefault(leaders, leaders)
        if was is not None and now.isr != was.isr:
            history.isr_shrinks += not set(was.isr) <= set(now.isr)
            history.isr_expands += not set(now.isr) <= set(was.isr)
        if _is_election(was, now, state.why):
            history.is_elected = True
            self.elected_by_why[state.why] += 1
            history.unclean_elections += state.why == UNCLEAN
            history.clean_elections += state.why != UNCLEAN

    def _end_span(
        self, history: _PartitionHistory, until: int, leaderless: _Leaderless, *, is_last: bool = False
    ) -> None:
        state = history.last
        if self._ended_spans is None or state is None or state.leadership is None:
            return
        self._ended_spans.append(
            LeadershipSpan(
                leadership=state.leadership,
                writer_epoch=state.writer_epoch,
                why=state.why,
                is_election=history.is_elected,
                since=state.key.us,
                until=max(state.key.us, until),
                leaderless_us=leaderless.us,
                leaderless_within_us=leaderless.within_us,
                is_last=is_last,
            )
        )

    def _leaderless(self, state: _State, following: Key | None = None) -> _Leaderless:
        """Return for how long a partition in some state was without a leader before the following state and the run's
        end."""
        if state.leadership is None:
            return _NOT_LEADERLESS
        is_led = state.leadership.leader >= 0
        spells = self._down.get(broker_node(state.leadership.leader), ()) if is_led else (_ALWAYS_DOWN,)
        if not spells:
            return _NOT_LEADERLESS
        since = min(instant(state.key), self._end)
        until = self._end if following is None else min(instant(following), self._end)
        first = bisect_right(spells, since.us - self._most_us, key=_up_us)
        last = bisect_left(spells, until.us + self._most_us, key=_fell_us)
        total = within = 0
        for spell in spells[first:last]:
            begin, end = max(since, spell.fell), min(until, spell.up)
            total += max(0, end.us - begin.us)
            if self._most_us:
                within += self._overlap_within(since, until, spell)
        return _Leaderless(total, within)

    def _overlap_within(self, since: Instant, until: Instant, spell: DownTime) -> int:
        """Return by how much the time between two instants during which a node was down may be wrong."""
        run, begin, end = self._run, max(since, spell.fell), min(until, spell.up)
        if begin > end:  # the clocks may allow them to overlap
            possible = within_us(run, end, begin) - (begin.us - end.us)
            return max(0, min(possible, until.us - since.us, spell.up.us - spell.fell.us))
        within = within_us(run, begin, end)
        for one, other in ((since, spell.fell), (until, spell.up)):
            either = within_us(run, one, other)
            if abs(one.us - other.us) <= either:  # either may be the first
                within += either
        return within

    def _row(self, topic: str, partition: int, history: _PartitionHistory) -> PartitionNumbers:
        last = history.last
        assert last is not None, "a partition has a history because it has a state"
        now = last.leadership
        leaderless = self._leaderless(last)
        return PartitionNumbers(
            topic=topic,
            partition=partition,
            leader=None if now is None else now.leader,
            leader_epoch=None if now is None else now.leader_epoch,
            isr=None if now is None else now.isr,
            writes=history.writes,
            clean_elections=history.clean_elections,
            unclean_elections=history.unclean_elections,
            isr_shrinks=history.isr_shrinks,
            isr_expands=history.isr_expands,
            leaderless_ms=millis(history.leaderless_us + leaderless.us),
            leaderless_within_ms=millis(history.leaderless_within_us + leaderless.within_us),
        )


class LeadershipSpan(msgspec.Struct, frozen=True, gc=False):
    """A state of a partition and how long it lasted, in microseconds."""

    leadership: Leadership
    writer_epoch: int
    why: str
    is_election: bool
    since: int
    until: int
    leaderless_us: int
    leaderless_within_us: int
    is_last: bool
    """Whether it lasts to the end of the run, and not until another state or a deletion."""


class LastState(NamedTuple):
    """The last state of a partition, in microseconds, and what came before."""

    leaders: frozenset[int]
    """The leaders of this state and all before it; -1 is none."""
    writer_epoch: int
    since: int
    until: int
    """When the partition was deleted, or the end of the run."""


class _Leaderless(NamedTuple):
    """For how long a partition was without a leader, and by how much the clocks allow this to be wrong."""

    us: int
    within_us: int


_NOT_LEADERLESS = _Leaderless(0, 0)


class _State(msgspec.Struct, frozen=True, gc=False):
    """A partition's state from the record on that has it."""

    key: Key
    writer_epoch: int
    why: str
    """`why` of the `LeadershipWritten`; or `loaded`, or `deleted`."""
    leadership: Leadership | None
    """None after a deletion."""


@dataclass(slots=True)
class _PartitionHistory:
    """The counts of one partition up to `last`, the newest state whose writer was not deposed."""

    last: _State | None
    led: _State | None = None
    """The state before the newest deletion, which was at `led_until`."""
    led_until: int = 0
    leaders: frozenset[int] = frozenset()
    is_elected: bool = False
    writes: int = 0
    clean_elections: int = 0
    unclean_elections: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    leaderless_us: int = 0
    leaderless_within_us: int = 0


def _is_election(was: Leadership | None, now: Leadership, why: str) -> bool:
    if why == _LOADED or why in NO_ELECTION or now.leader < 0:
        return False
    return was is None or was.leader != now.leader


class _Mark(NamedTuple):
    node: str
    at: Instant
    is_up: bool

    @property
    def order(self) -> tuple[str, int, bool]:
        """Sorts marks: at the same microsecond a node is up after it was down."""
        return (self.node, self.at.us, self.is_up)


class DownTime(NamedTuple):
    """A time during which a node was down."""

    fell: Instant
    up: Instant


_FOR_EVER = Instant(2**62, ("", 0))
_ALWAYS_DOWN = DownTime(Instant(-1, ("", 0)), _FOR_EVER)


def _fell_us(spell: DownTime) -> int:
    return spell.fell.us


def _up_us(spell: DownTime) -> int:
    return spell.up.us


def down_times(run: RunRecords) -> dict[str, list[DownTime]]:
    """Return for each node the times during which it was down."""
    marks = [
        _Mark(at.data.target, instant(at.key), False) for at in run.of(FaultInjected) if at.data.fault in DOWN_FAULTS
    ]
    marks += [
        _Mark(at.data.target, instant(at.key), True) for at in run.of(FaultInjected) if at.data.fault in UP_FAULTS
    ]
    marks += [_Mark(at.node, instant(at.key), False) for at in run.of(PointReached)]
    marks += [_Mark(at.node, instant(at.key), False) for at in run.of(ProcessExiting)]
    marks += [_Mark(at.node, instant(at.key), True) for at in run.of(BrokerRegistered)]
    for changed in run.of(BrokersChanged):
        at = instant(changed.key)
        marks += [_Mark(broker_node(broker), at, True) for broker in (*changed.data.new, *changed.data.bounced)]
    down: dict[str, list[DownTime]] = {}
    in_order = sorted([*marks, *_silences(run, marks)], key=lambda mark: mark.order)
    for node, own in groupby(in_order, key=lambda mark: mark.node):
        fell: Instant | None = None
        for mark in own:
            if mark.is_up and fell is not None:
                down.setdefault(node, []).append(DownTime(fell, mark.at))
                fell = None
            elif not mark.is_up and fell is None:
                fell = mark.at
        if fell is not None:
            down.setdefault(node, []).append(DownTime(fell, _FOR_EVER))
    return down


def _silences(run: RunRecords, known: Iterable[_Mark]) -> Iterator[_Mark]:
    """Yield the beginning of the silence of each broker that was seen to be gone, unless it was known to be down."""
    marks = grouped((mark.node, mark) for mark in sorted(known, key=lambda mark: mark.order))
    silences, registered = Silences(run), grouped((at.node, at) for at in run.of(BrokerRegistered))
    for node, seen in _gone_brokers(run, registered):
        before = [mark for mark in marks.get(node, ()) if mark.at.us <= seen.us]
        if before and not before[-1].is_up:
            continue
        own = [at for at in registered.get(node, ()) if at.us <= seen.us]
        began = silences.began(own[-1].incarnation, seen) if own else None
        yield _Mark(node, began or seen, False)


def _gone_brokers(
    run: RunRecords, registered: Mapping[str, Sequence[At[BrokerRegistered]]]
) -> Iterator[tuple[str, Instant]]:
    """Yield the node of each broker that a controller saw to be gone, and when."""
    for changed in run.of(BrokersChanged):
        yield from ((broker_node(broker), instant(changed.key)) for broker in changed.data.dead)
    ready = firsts(((at.incarnation, at.data.epoch), at) for at in run.of(ControllerReady))
    for elected in run.of(ControllerElected):
        took_over = ready.get((elected.incarnation, elected.data.epoch))
        if took_over is not None:
            live = set(map(broker_node, took_over.data.brokers))
            for node, records in registered.items():
                if node not in live and records[0].us <= elected.us:
                    yield node, instant(elected.key)
