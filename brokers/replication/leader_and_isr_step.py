"""Decides what a LeaderAndIsr request changes (BK-4 to BK-9). Mirrors `makeLeaders` and `makeFollowers` of
`ReplicaManager`.

A plain function from the hosted partitions and a request to the new states and the answer; `ReplicaManager` applies
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from understudy.brokers.replication.partition import (
    HostedPartitions,
    LocalPartitionState,
    Role,
    StaleLeaderEpoch,
    leadership_of,
    made_follower,
    made_leader,
)
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.eventlog.records import Leadership
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest


class RequestedState(NamedTuple):
    """The state that a LeaderAndIsr request has for one partition."""

    topic_partition: TopicPartition
    topic_id: TopicId
    state: LeaderAndIsrPartitionState


def requested_states(request: LeaderAndIsrRequest) -> tuple[RequestedState, ...]:
    """The states in a request of any version. Versions 0 and 1 name the topic per partition."""
    by_topic = [
        RequestedState(TopicPartition(topic.topic_name, state.partition_index), topic.topic_id, state)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    ungrouped = [
        RequestedState(TopicPartition(state.topic_name, state.partition_index), NO_TOPIC_ID, state)
        for state in request.ungrouped_partition_states
    ]
    return (*by_topic, *ungrouped)


class LeaderAndIsrStep(NamedTuple):
    """What a LeaderAndIsr request changes, and its answer.

    Attributes:
        before: the states of the partitions so far; None for one that was not hosted.
        changed: the states of partitions afterwards.
        errors: the answer per partition, in the order of the request.
        stale: the partitions whose leader epoch is older than the known one; the fence has refused them if it is on.
        leaders, followers: what was applied, for the event log.
        follow: the partitions to fetch from now on, at a new leader epoch or with a new topic id.
        leaderless: partitions to follow whose leader is not alive; they keep their old leader epoch (BK-9).
    """

    before: dict[TopicPartition, LocalPartitionState | None]
    changed: dict[TopicPartition, LocalPartitionState]
    errors: dict[TopicPartition, Errors]
    stale: tuple[StaleLeaderEpoch, ...]
    leaders: tuple[Leadership, ...]
    followers: tuple[Leadership, ...]
    follow: tuple[TopicPartition, ...]
    leaderless: tuple[TopicPartition, ...]


_Change: TypeAlias = tuple[LocalPartitionState, RequestedState]
"""The state of a partition so far, and the requested one."""


class _Verdict(NamedTuple):
    """The answer for one partition, and the action on it."""

    error: Errors
    is_newer: bool = False
    """The leader epoch is newer: the whole state is to be applied."""
    changes_topic_id: bool = False
    """The leader epoch is known; only the topic id is to be applied."""


_NEWER = _Verdict(Errors.NONE, is_newer=True)
_NEW_TOPIC_ID = _Verdict(Errors.NONE, changes_topic_id=True)
_STALE = _Verdict(Errors.STALE_CONTROLLER_EPOCH)
_OTHER_TOPIC_ID = _Verdict(Errors.INCONSISTENT_TOPIC_ID)
_NOT_ASSIGNED = _Verdict(Errors.UNKNOWN_TOPIC_OR_PARTITION)


def leader_and_isr_step(
    hosted: HostedPartitions,
    requested: Sequence[RequestedState],
    *,
    broker_id: int,
    is_alive: Callable[[int], bool],
    now_ms: float,
    stored_topic_id: Callable[[TopicPartition], TopicId] = lambda _: NO_TOPIC_ID,
    refuses_older_epochs: bool = True,
    leaderless_keep_epoch: bool = True,
) -> LeaderAndIsrStep:
    """Judge every partition in the order of the request; then become leader, then follower (BK-4 to BK-9).

    Args:
        refuses_older_epochs: False if an experiment has switched the fence of leader epochs off.
        leaderless_keep_epoch: False if an experiment undoes KAFKA-9769.
    """
    before: dict[TopicPartition, LocalPartitionState | None] = {}
    changed: dict[TopicPartition, LocalPartitionState] = {}
    errors: dict[TopicPartition, Errors] = {}
    stale: list[StaleLeaderEpoch] = []
    to_lead: list[_Change] = []
    to_follow: list[_Change] = []
    follow: list[TopicPartition] = []
    for wanted in requested:
        topic_partition, topic_id, state = wanted
        known = hosted.get(topic_partition)
        if known is None:
            was = changed[topic_partition] = LocalPartitionState(topic_partition=topic_partition)
        else:
            was = known.state
        before[topic_partition] = None if known is None else was
        # After a restart only the log on disk has the topic's id; it may be the id of an earlier topic.
        own_id = stored_topic_id(topic_partition) if was.topic_id == NO_TOPIC_ID else was.topic_id
        if own_id != topic_id and NO_TOPIC_ID not in (own_id, topic_id):
            verdict = _OTHER_TOPIC_ID
        else:
            if state.leader_epoch < was.leader_epoch:
                stale.append(StaleLeaderEpoch(topic_partition, state.leader_epoch, was.leader_epoch))
            verdict = _judge(was, wanted, broker_id, refuses_older_epochs=refuses_older_epochs)
        errors[topic_partition] = verdict.error
        if verdict.is_newer:
            (to_lead if state.leader == broker_id else to_follow).append((was, wanted))
        elif verdict.changes_topic_id:
            # A follower fetches by topic id, or by name, from now on.
            changed[topic_partition] = msgspec.structs.replace(was, topic_id=topic_id)
            if was.role is Role.FOLLOWER:
                follow.append(topic_partition)

    leaders = tuple(_make_leaders(to_lead, changed, now_ms))
    followers, started, leaderless = _make_followers(
        to_follow, changed, is_alive, leaderless_keep_epoch=leaderless_keep_epoch
    )
    return LeaderAndIsrStep(before, changed, errors, tuple(stale), leaders, followers, (*follow, *started), leaderless)


def _judge(
    before: LocalPartitionState, wanted: RequestedState, broker_id: int, *, refuses_older_epochs: bool
) -> _Verdict:
    """Compare the leader epoch of one partition with the known one (BK-6)."""
    _, topic_id, state = wanted
    id_known, id_given = before.topic_id != NO_TOPIC_ID, topic_id != NO_TOPIC_ID
    if state.leader_epoch == before.leader_epoch:
        # An equal epoch is no hit of the fence: every new controller repeats the known states.
        gains_id = id_given and not id_known
        loses_id = id_known and not id_given and state.leader != broker_id
        return _NEW_TOPIC_ID if gains_id or loses_id else _STALE
    if state.leader_epoch < before.leader_epoch and refuses_older_epochs:
        return _STALE
    return _NEWER if broker_id in state.replicas else _NOT_ASSIGNED


def _make_leaders(
    to_lead: Iterable[_Change], changed: dict[TopicPartition, LocalPartitionState], now_ms: float
) -> Iterator[Leadership]:
    for before, (topic_partition, topic_id, state) in to_lead:
        if state.partition_epoch < before.partition_epoch:
            continue  # an AlterPartition answer has brought a newer ISR already
        changed[topic_partition] = made_leader(before, state, topic_id, now_ms)
        yield leadership_of(state, topic_partition)


def _make_followers(
    to_follow: Iterable[_Change],
    changed: dict[TopicPartition, LocalPartitionState],
    is_alive: Callable[[int], bool],
    *,
    leaderless_keep_epoch: bool,
) -> tuple[tuple[Leadership, ...], tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    """The entries of those that follow now, those to fetch, and those whose leader is not alive."""
    applied: list[Leadership] = []
    started: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    for before, (topic_partition, topic_id, state) in to_follow:
        if not is_alive(state.leader):
            leaderless.append(topic_partition)
            if not leaderless_keep_epoch:
                changed[topic_partition] = made_follower(before, state, topic_id)
        elif state.partition_epoch >= before.partition_epoch:
            changed[topic_partition] = made_follower(before, state, topic_id)
            started.append(topic_partition)
            applied.append(leadership_of(state, topic_partition))
    return tuple(applied), tuple(started), tuple(leaderless)
