"""The replica state machine: replicas start, stop, leave the ISR and are deleted. Mirrors `ReplicaStateMachine`.

    NonExistentReplica → NewReplica       LeaderAndIsr (new) to it if the partition has a leader, UpdateMetadata to all
    NewReplica → OnlineReplica            no request: it was sent when the replica was new
    Online-, Offline-, …Ineligible        LeaderAndIsr to it, UpdateMetadata to all
      → OnlineReplica
    New-, Online-, Offline-, …Ineligible  StopReplica to it; it leaves the ISR in ZooKeeper; then LeaderAndIsr to the
      → OfflineReplica                    other replicas and UpdateMetadata to all
    OfflineReplica → DeletionStarted      StopReplica to it, with deletion
    DeletionStarted → …Successful         state only
    Offline-, DeletionStarted             state only
      → DeletionIneligible
    DeletionSuccessful → NonExistent      it leaves the assignment in memory

Replicas are grouped by broker, as every caller has them. Each broker is one step with its own writes, and all brokers
of a call share one batch of requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

import structlog
from msgspec.structs import replace

from understudy.controller.channels.request_batch import RequestBatch
from understudy.controller.leader_election import under_new_leader
from understudy.controller.state_writes import Outcome, StateChangeFailed, StateWrites
from understudy.controller.term import Term
from understudy.controller.transitions import VALID_PREVIOUS_REPLICA_STATES, ReplicaState
from understudy.foundation.cluster.assignment import ReplicaAssignment, without
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER, LeaderAndIsr
from understudy.foundation.eventlog.records import (
    InvalidTransition,
    LeadershipNotWritten,
    Refused,
    ReplicasMoved,
    Transition,
)
from understudy.foundation.zk.client import Failure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


async def startup(term: Term) -> None:
    """Derive each replica's state from whether its broker is online, then send all replicas their states (FO-9)."""
    online, offline = _online_and_offline_replicas(term)
    for broker, partitions in online.items():
        term.context.replica_states[broker] = dict.fromkeys(partitions, ReplicaState.ONLINE)
    for broker, partitions in offline.items():
        ineligible = dict.fromkeys(partitions, ReplicaState.DELETION_INELIGIBLE)
        term.context.replica_states.setdefault(broker, {}).update(ineligible)
    await handle_state_changes(term, online, ReplicaState.ONLINE)
    if offline and term.rules.takeover_removes_dead_brokers_from_isrs.holds_for(f"{len(offline)} offline replicas"):
        await handle_state_changes(term, offline, ReplicaState.OFFLINE)


async def handle_state_changes(
    term: Term, partitions_by_replica: Mapping[BrokerId, Sequence[TopicPartition]], target: ReplicaState
) -> None:
    """Move each broker's replicas of its partitions to `target`. Invalid transitions are recorded and skipped.

    Raises:
        ControllerMoved, SessionLost: the role is lost.
        ZooKeeperFailure: UNKNOWN; memory cannot be trusted. Any other failure is recorded for its partitions.
    """
    batch = term.new_batch()
    for broker in sorted(partitions_by_replica):
        await _move_replicas(term, broker, partitions_by_replica[broker], target, batch)
    await term.flush(batch, "replica")


async def _move_replicas(
    term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], target: ReplicaState, batch: RequestBatch
) -> None:
    valid = _valid(term, broker, partitions, target)
    if not valid:
        return
    match target:
        case ReplicaState.NEW:
            _move_to_new(term, broker, valid, batch)
        case ReplicaState.ONLINE:
            _move_to_online(term, broker, valid, batch)
        case ReplicaState.OFFLINE:
            await _move_to_offline(term, broker, valid, batch)
        case ReplicaState.DELETION_STARTED:
            batch.add_stop_replica(broker, valid, delete=True)
            _move(term, broker, valid, target)
        case ReplicaState.DELETION_INELIGIBLE | ReplicaState.DELETION_SUCCESSFUL:
            _move(term, broker, valid, target)
        case ReplicaState.NON_EXISTENT:
            _move_to_non_existent(term, broker, valid)
        case _:
            assert_never(target)


def _move_to_new(term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], batch: RequestBatch) -> None:
    """Start replicas that have not existed before (RSM-3). The leader cannot be one of them; that would be a defect of
    ours."""
    moved = []
    for partition in partitions:
        known = term.context.leadership.get(partition)
        if known is not None and known.leader_and_isr.leader == broker:
            log.error("a new replica is asked to lead", partition=str(partition), broker=broker)
            continue
        if known is not None:
            batch.add_leader_and_isr((broker,), partition, is_new=True)
        moved.append(partition)
    _move(term, broker, moved, ReplicaState.NEW)


def _move_to_online(term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], batch: RequestBatch) -> None:
    """Start replicas that exist, and add new ones to the assignment in memory (RSM-4, RSM-5)."""
    states, leadership = term.context.replica_states[broker], term.context.leadership
    new = dict.fromkeys(partition for partition in partitions if states[partition] is ReplicaState.NEW)
    for partition in new:
        _add_to_assignment(term, broker, partition)
    known = [partition for partition in partitions if partition in leadership and partition not in new]
    if known:
        batch.add_all_leader_and_isr(broker, known)
    _move(term, broker, partitions, ReplicaState.ONLINE)


def _add_to_assignment(term: Term, broker: BrokerId, partition: TopicPartition) -> None:
    assignment = term.context.partition_assignment(partition)
    if broker not in assignment.replicas:
        log.error("adding a replica that is not assigned", partition=str(partition), broker=broker)
        extended = replace(assignment, replicas=(*assignment.replicas, broker))
        term.context.update_partition_assignment(partition, extended)


async def _move_to_offline(
    term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], batch: RequestBatch
) -> None:
    """Stop replicas and take them out of the ISR (RSM-6).

    StopReplica carries the leader epoch from before the replica leaves the ISR.
    """
    context = term.context
    batch.add_stop_replica(broker, partitions, delete=False)
    led = [partition for partition in partitions if partition in context.leadership]
    leaderless = [partition for partition in partitions if partition not in context.leadership]

    removed = await _remove_replica_from_isr(term, broker, led, batch)
    if leaderless:
        # These partitions are not in the request; it tells all brokers which brokers are alive.
        batch.add_update_metadata(context.live_or_shutting_down_broker_ids, leaderless)
    _move(term, broker, [*removed, *leaderless], ReplicaState.OFFLINE)


def _move_to_non_existent(term: Term, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """Remove deleted replicas from the assignment in memory (RSM-10)."""
    _move(term, broker, partitions, ReplicaState.NON_EXISTENT)
    for partition in partitions:
        assignment = term.context.partition_assignment(partition)
        groups = (assignment.replicas, assignment.adding_replicas, assignment.removing_replicas)
        remaining = ReplicaAssignment(*(without(group, broker) for group in groups))
        term.context.update_partition_assignment(partition, remaining)
        del term.context.replica_states[broker][partition]


# ------------------------------------------------------------------ leaving the ISR


async def _remove_replica_from_isr(
    term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], batch: RequestBatch
) -> list[TopicPartition]:
    """Take the replica on `broker` out of the ISRs, and send the new state to the other replicas (RSM-7).

    Returns the partitions whose ISR is now without it, whether or not that took a write.
    """
    context = term.context
    writes = StateWrites(term, "replica", why="isr-removal")
    with writes.failures_as_outcomes(partitions):
        while states := await writes.undecided():
            writes.keep({partition: state for partition, state in states.items() if broker not in state.isr})
            await writes.write(
                {
                    partition: without_replica(state, broker, keeps_last=_keeps_last(term, partition, state))
                    for partition, state in states.items()
                    if broker in state.isr
                }
            )
    accepted = writes.accepted
    for partition in context.without_queued_topics(accepted):
        batch.add_leader_and_isr(without(context.partition_assignment(partition).replicas, broker), partition)
    done = [partition for partition in partitions if partition in accepted]
    term.state_changes.left_isr(broker, (partition for partition in done if partition not in writes.unchanged))
    _record_failures(term, writes.outcomes)
    return done


def _keeps_last(term: Term, partition: TopicPartition, state: LeaderAndIsr) -> bool:
    return len(state.isr) > 1 or term.rules.last_isr_member_stays.holds_for(partition)


def without_replica(state: LeaderAndIsr, broker: BrokerId, *, keeps_last: bool = True) -> LeaderAndIsr:
    """Return `state` without the replica on `broker`.

    A leader is replaced by none. The last member of an ISR stays in it, because it is the only one that may lead again
    without loss of data (KAFKA-5083).

    Args:
        keeps_last: False if an experiment undoes that.
    """
    leader = NO_LEADER if state.leader == broker else state.leader
    isr = state.isr if keeps_last and len(state.isr) == 1 else without(state.isr, broker)
    return under_new_leader(state, leader, isr)


# ------------------------------------------------------------------ states and records


def _online_and_offline_replicas(
    term: Term,
) -> tuple[dict[BrokerId, list[TopicPartition]], dict[BrokerId, list[TopicPartition]]]:
    view = term.context.online_brokers()
    online: dict[BrokerId, list[TopicPartition]] = {}
    offline: dict[BrokerId, list[TopicPartition]] = {}
    for partition, assignment in term.context.assignments.items():
        alive = view.of(partition)
        for replica in assignment.replicas:
            (online if replica in alive else offline).setdefault(replica, []).append(partition)
    return online, offline


def _valid(
    term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], target: ReplicaState
) -> list[TopicPartition]:
    """Return the partitions whose replica on `broker` may move to `target`; record the others."""
    states = term.context.replica_states.setdefault(broker, {})
    legal = VALID_PREVIOUS_REPLICA_STATES[target]
    # An assignment made by hand may name a broker twice; it has one replica all the same.
    asked = dict.fromkeys(partitions)
    valid = [partition for partition in asked if states.setdefault(partition, ReplicaState.NON_EXISTENT) in legal]
    if len(valid) < len(asked):
        invalid = [partition for partition in asked if states[partition] not in legal]
        for partition in invalid:
            topic, number = partition
            source = states[partition].value
            term.events.append(
                InvalidTransition(target=target.value, source=source, topic=topic, partition=number, replica=broker)
            )
        term.state_changes.replicas_failed(
            broker, ((partition, "invalid state change") for partition in invalid), target
        )
    return valid


def _move(term: Term, broker: BrokerId, partitions: Sequence[TopicPartition], target: ReplicaState) -> None:
    """Set the states to `target`, and record those that change."""
    term.state_changes.replicas_enter(broker, partitions, target)
    states = term.context.replica_states[broker]
    moved = tuple(
        [
            Transition(*partition, broker, source.value)
            for partition in partitions
            if (source := states[partition]) is not target
        ]
    )
    if moved:
        states.update(dict.fromkeys(partitions, target))
        term.events.append(ReplicasMoved(target=target.value, replicas=moved))


def mark_started(term: Term, broker: BrokerId, partition: TopicPartition) -> None:
    """Set the state of a replica that runs without a request of this controller to OnlineReplica; nothing is sent."""
    states = term.context.replica_states.setdefault(broker, {})
    # NonExistentReplica may be noted for it, by an invalid transition.
    if states.setdefault(partition, ReplicaState.NON_EXISTENT) is ReplicaState.NON_EXISTENT:
        for target in (ReplicaState.NEW, ReplicaState.ONLINE):
            _move(term, broker, (partition,), target)


def _record_failures(term: Term, outcomes: Mapping[TopicPartition, Outcome]) -> None:
    """Record the failures. A missing state of a topic that is being deleted is none."""
    refused = tuple(
        Refused(partition.topic, partition.partition, outcome.label)
        for partition, outcome in outcomes.items()
        if isinstance(outcome, StateChangeFailed)
        and not (outcome.failure is Failure.NO_NODE and term.context.is_topic_queued_for_deletion(partition.topic))
    )
    if refused:
        term.events.append(LeadershipNotWritten(why="isr-removal", partitions=refused))
        log.error("failed to remove a replica from the ISR", partitions=len(refused))
