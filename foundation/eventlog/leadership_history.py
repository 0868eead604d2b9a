"""Computes the `PartitionNumbers` rows of a run, as `metric_tables` defines them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from foundation.cluster.identifiers import TopicPartition
from foundation.eventlog.metric_tables import PartitionNumbers
from foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    FaultInjected,
    LeadershipWritten,
    PointReached,
    ProcessExiting,
    TopicsChanged,
)
from foundation.eventlog.run_records import Key, RunRecords, broker_node, millis

UNCLEAN = "unclean"
NO_ELECTION = ("alter-partition", "isr-removal")
DOWN_FAULTS = ("kill", "pause", "crash")
UP_FAULTS = ("continue",)

_LOADED = "loaded"
_DELETED = "deleted"


class _RecordedState(NamedTuple):
    """A partition's state from `key` on, as a record has it at position `place`."""

    key: Key
    place: int
    writer_epoch: int
    why: str
    """`why` of the `LeadershipWritten`; or `loaded`, or `deleted`."""
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipHistory:
    """The rows of all partitions of a run.

    Attributes:
        rows: one per partition, sorted.
        elected_by_why: states that count as an election, by the reason they were written for.
    """

    rows: tuple[PartitionNumbers, ...]
    elected_by_why: Counter[str] = field(default_factory=Counter)


def leadership_history(run: RunRecords, end: int) -> LeadershipHistory:
    """Compute the rows of every partition of the run, until `end` in microseconds."""
    down = _down_times(run)
    elected: Counter[str] = Counter()
    rows = []
    for partition, states in sorted(_states(run).items()):
        kept = _without_late_ones(sorted(states))
        rows.append(_row(partition, states, kept, down, end))
        elected.update(state.why for before, state in _pairs(kept) if _is_election(before, state))
    return LeadershipHistory(rows=tuple(rows), elected_by_why=elected)


def _states(run: RunRecords) -> dict[TopicPartition, list[_RecordedState]]:
    states: dict[TopicPartition, list[_RecordedState]] = {}
    for written in run.of(LeadershipWritten):
        for index, new in enumerate(written.data.partitions):
            state = _RecordedState(
                written.key, index, new.controller_epoch, written.data.why, new.leader, new.leader_epoch, new.isr
            )
            states.setdefault(TopicPartition(new.topic, new.partition), []).append(state)
    for loaded in run.of(ContextLoaded):
        for index, old in enumerate(loaded.data.partitions):
            state = _RecordedState(loaded.key, index, loaded.data.epoch, _LOADED, old.leader, old.leader_epoch, old.isr)
            states.setdefault(TopicPartition(old.topic, old.partition), []).append(state)
    for changed in run.of(TopicsChanged):
        for topic in sorted(set(changed.data.deleted)):
            for partition in [partition for partition in states if partition.topic == topic]:
                states[partition].append(_RecordedState(changed.key, 0, changed.controller_epoch, _DELETED))
    return states


def _without_late_ones(states: list[_RecordedState]) -> list[_RecordedState]:
    kept: list[_RecordedState] = []
    newest = states[0].writer_epoch
    for state in states:
        newest = max(newest, state.writer_epoch)
        if state.writer_epoch == newest:
            kept.append(state)
    return kept


def _pairs(kept: list[_RecordedState]) -> list[tuple[_RecordedState | None, _RecordedState]]:
    """Pair each state with the one before it: None for the first and after a deletion."""
    befores = [None, *(None if state.why == _DELETED else state for state in kept)]
    return list(zip(befores, kept, strict=False))


def _is_election(before: _RecordedState | None, state: _RecordedState) -> bool:
    if state.why in (_LOADED, _DELETED, *NO_ELECTION) or state.leader < 0:
        return False
    return before is None or before.leader != state.leader


def _row(
    partition: TopicPartition,
    states: list[_RecordedState],
    kept: list[_RecordedState],
    down: dict[str, list[tuple[int, int]]],
    end: int,
) -> PartitionNumbers:
    pairs = _pairs(kept)
    changes = [(set(before.isr), set(state.isr)) for before, state in pairs if before and state.why != _DELETED]
    elections = [state for before, state in pairs if _is_election(before, state)]
    last = kept[-1]
    gone = last.why == _DELETED
    return PartitionNumbers(
        topic=partition.topic,
        partition=partition.partition,
        leader=None if gone else last.leader,
        leader_epoch=None if gone else last.leader_epoch,
        isr=None if gone else last.isr,
        writes=sum(state.why not in (_LOADED, _DELETED) for state in states),
        clean_elections=sum(state.why != UNCLEAN for state in elections),
        unclean_elections=sum(state.why == UNCLEAN for state in elections),
        isr_shrinks=sum(bool(before - after) for before, after in changes),
        isr_expands=sum(bool(after - before) for before, after in changes),
        leaderless_ms=millis(_leaderless(kept, down, end)),
    )


def _leaderless(kept: list[_RecordedState], down: dict[str, list[tuple[int, int]]], end: int) -> int:
    total = 0
    for state, until in zip(kept, [*(state.key.us for state in kept[1:]), end], strict=True):
        since, until = min(state.key.us, end), min(until, end)
        if state.why == _DELETED:
            continue
        if state.leader < 0:
            total += until - since
        else:
            spells = down.get(broker_node(state.leader), ())
            total += sum(max(0, min(until, up) - max(since, fell)) for fell, up in spells)
    return total


class _Mark(NamedTuple):
    node: str
    us: int
    is_up: bool


_FOR_EVER = 2**62


def _down_times(run: RunRecords) -> dict[str, list[tuple[int, int]]]:
    """Return for each node the times during which it was down, in microseconds."""
    marks = [_Mark(at.data.target, at.us, False) for at in run.of(FaultInjected) if at.data.fault in DOWN_FAULTS]
    marks += [_Mark(at.data.target, at.us, True) for at in run.of(FaultInjected) if at.data.fault in UP_FAULTS]
    marks += [_Mark(at.node, at.us, False) for at in run.of(PointReached)]
    marks += [_Mark(at.node, at.us, False) for at in run.of(ProcessExiting)]
    marks += [_Mark(at.node, at.us, True) for at in run.of(BrokerRegistered)]
    for changed in run.of(BrokersChanged):
        marks += [_Mark(broker_node(broker), changed.us, False) for broker in changed.data.dead]
        marks += [_Mark(broker_node(broker), changed.us, True) for broker in (*changed.data.new, *changed.data.bounced)]
    down: dict[str, list[tuple[int, int]]] = {}
    for node, own in groupby(sorted(marks), key=lambda mark: mark.node):
        fell: int | None = None
        for mark in own:
            if mark.is_up and fell is not None:
                down.setdefault(node, []).append((fell, mark.us))
                fell = None
            elif not mark.is_up and fell is None:
                fell = mark.us
        if fell is not None:
            down.setdefault(node, []).append((fell, _FOR_EVER))
    return down
