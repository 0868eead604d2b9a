"""Moves partitions to other brokers, phase by phase. Mirrors `onPartitionReassignment` (KIP-455).

RS is the replica set of a partition, ORS its original and TRS its target replicas, AR the replicas to add and RR those
to remove. The steps are numbered as in Kafka:

    U   The assignment changes, whatever triggered it.
        U1  Write RS = TRS + ORS, AR, RR to the topic's znode.
        U2  Take them into memory.
        U3  If another reassignment is cancelled or replaced: stop and delete replicas of its AR that are not in TRS.
    A   Not all of TRS is in the ISR.
        A1  Raise the leader epoch, and send LeaderAndIsr with RS, AR, RR to all replicas.
        A2  Move the replicas in AR to NewReplica, so that they start to fetch.
    B   All of TRS is in the ISR.
        B1  Move the replicas in AR to OnlineReplica.
        B2  Set RS = TRS, AR = RR = [] in memory.
        B3  If the leader is alive and in TRS: raise the leader epoch, and send LeaderAndIsr with RS = TRS.
            Otherwise elect a leader from TRS.
        B4  Move the replicas in RR to OfflineReplica: they leave the ISR and stop.
        B5  Move them to NonExistentReplica: they are deleted. The controller does not wait for it, and does not
            repeat it (BUG-15).
        B6  Write RS = TRS, AR = RR = [] to the topic's znode.
        B7  Remove the partition from `/admin/reassign_partitions`.
        B8  Send UpdateMetadata to all brokers.

B6 comes late on purpose: until then the znode holds ORS, so a controller that takes over in between repeats phase B
(RA-12). Kafka's B9, resuming the deletion of the topic, has nothing to do here: a deletion ends the reassignment.

A topic's znode holds all its partitions, and each reassignment writes it in U1 and in B6. Kafka takes one partition
after the other: for 10,000 partitions in one request it writes half a megabyte 10,000 times, twice. Here partitions go
through the steps together, in at most `TURNS` groups; up to `TURNS` partitions still go one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import structlog
from msgspec.structs import asdict

from understudy.controller import partition_state_machine, replica_state_machine
from understudy.controller.leader_election import under_new_leader
from understudy.controller.partition_state_machine import Strategy
from understudy.controller.reassignment.decisions import in_groups, is_complete, leaving_replicas
from understudy.controller.reassignment.znode import remove_from_znode
from understudy.controller.state_writes import Outcome, StateWrites, states_of
from understudy.controller.term import Term
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER, LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.operator_lines import some, with_a_line
from understudy.foundation.zk.client import MAX_REQUEST_BYTES, Failure
from understudy.foundation.zk.kafka_zk_client import TopicAssignment

TURNS = 20

Reassignments: TypeAlias = Mapping[TopicPartition, ReplicaAssignment]
Failures: TypeAlias = dict[TopicPartition, ApiError]

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def on_partition_reassignment(term: Term, reassignments: Reassignments) -> Failures:
    """Start or resume these reassignments, and complete those whose TRS is in sync. Returns which failed, and why."""
    failures: Failures = {}
    for partition, assignment in with_a_line(log, reassignments.items()):
        log.info("reassigning partition", partition=str(partition), **asdict(assignment))
    for turn in in_groups(reassignments, TURNS):
        failures |= await _update_assignments(term, turn)
        updated = {partition: assignment for partition, assignment in turn.items() if partition not in failures}
        complete = await _with_target_in_sync(term, updated)
        waiting = {partition: assignment for partition, assignment in updated.items() if partition not in complete}
        failures |= await _start_adding_replicas(term, waiting)
        failures |= await _complete(term, complete)
    _log_failures(failures)
    return failures


async def complete_reassignments(term: Term, reassignments: Reassignments) -> None:
    """Run phase B for the partitions whose TRS is in sync; the others are left as they are."""
    failures: Failures = {}
    for turn in in_groups(await _with_target_in_sync(term, reassignments), TURNS):
        failures |= await _complete(term, turn)
    _log_failures(failures)


def _log_failures(failures: Failures) -> None:
    for partition, error in with_a_line(log, failures.items()):
        log.error("error completing reassignment", partition=str(partition), why=error.message)


async def _with_target_in_sync(term: Term, reassignments: Reassignments) -> Reassignments:
    """Return the partitions all of whose TRS is in the ISR (RA-9).

    The ISRs are read from ZooKeeper, as in Kafka, although memory holds what ZooKeeper last accepted (D15): a leader
    older than KIP-497 writes its ISR itself, and memory learns of it late. In a cluster of such leaders the states are
    also watched.
    """
    if not reassignments:
        return {}
    watch = not term.settings.inter_broker_protocol_version.is_alter_partition_supported
    states = await term.zk.states.read(list(reassignments), watch=watch)
    found = {partition: state for partition, state in states.items() if not isinstance(state, Failure)}
    _update_leadership(term, found)
    return {
        partition: assignment
        for partition, assignment in reassignments.items()
        if is_complete(assignment, found[partition].leader_and_isr.isr if partition in found else None)
    }


def _update_leadership(term: Term, found: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]) -> None:
    known = term.context.leadership
    changed = {
        partition: state
        for partition, state in found.items()
        if partition not in known or known[partition].leader_and_isr != state.leader_and_isr
    }
    if changed:
        term.context.put_leadership(changed)


# ------------------------------------------------------------------ phase U: the assignment changes


async def _update_assignments(term: Term, reassignments: Reassignments) -> Failures:
    """Phase U (RA-8). Returns the partitions whose assignment could not be written."""
    context = term.context
    changed = {p: wanted for p, wanted in reassignments.items() if context.partition_assignment(p) != wanted}
    failures = await _write_assignments(term, changed)  # U1
    for partition, wanted in with_a_line(log, changed.items()):
        if partition not in failures:
            log.info("updated current assignment", partition=str(partition), **asdict(wanted))
    unneeded: dict[BrokerId, list[TopicPartition]] = {}
    for partition, reassignment in changed.items():
        if partition not in failures:
            before = context.partition_assignment(partition)
            context.update_partition_assignment(partition, reassignment)  # U2
            for replica in before.replicas:
                if replica not in reassignment.replicas:
                    unneeded.setdefault(replica, []).append(partition)
    await _stop_replicas(term, unneeded)  # U3
    context.partitions_being_reassigned.update(p for p in reassignments if p not in failures)
    return failures


async def _write_assignments(term: Term, reassignments: Reassignments) -> Failures:
    """Write the topics' znodes with these assignments; other partitions keep theirs (U1, B6).

    Unlike in Kafka, partitions that were added to the znode and are not in memory yet are also kept (BUG-18).
    """
    if not reassignments:
        return {}
    context = term.context
    nodes = {
        topic: TopicAssignment(context.topic_ids.get(topic), context.assignments_for_topic(topic))
        for topic in _topics(reassignments)
    }
    for partition, assignment in reassignments.items():
        nodes[partition.topic].partitions[partition] = assignment
    await term.points.reach("reassignment.assignment.before_write")
    failed = await term.zk.topics.update_assignments(nodes, context.epoch_zk_version)
    await term.points.reach("reassignment.assignment.after_write")
    return {
        partition: _unwritten(partition.topic, failed[partition.topic])
        for partition in reassignments
        if partition.topic in failed
    }


def _unwritten(topic: str, failure: Failure) -> ApiError:
    if failure is Failure.TOO_LARGE:
        why = (
            f"topic {topic} with the replicas to be added does not fit into its znode; a request to ZooKeeper may have "
            f"{MAX_REQUEST_BYTES} bytes: reassign fewer partitions at a time"
        )
    else:
        why = f"the assignment of topic {topic} could not be written: {failure.value}"
    return ApiError(Errors.UNKNOWN_SERVER_ERROR, why)


# ------------------------------------------------------------------ phase A: not all of TRS is in the ISR


async def _start_adding_replicas(term: Term, reassignments: Reassignments) -> Failures:
    """Phase A (RA-10). Returns the partitions whose leader epoch could not be raised."""
    await _elect_for_stopped_leaders(term, reassignments)
    outcomes = await _update_leader_epochs_and_send_requests(term, reassignments)  # A1
    # Also if the write failed, or the partition has no state yet: the replica is assigned now, and its broker may start
    # or fail at any time. Kafka leaves it in NonExistentReplica, in which neither can be followed.
    adding = {partition: assignment.adding_replicas for partition, assignment in reassignments.items()}
    await _move_to_new(term, _by_replica(adding))  # A2
    return _failures(outcomes)


async def _elect_for_stopped_leaders(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """Elect leaders for the partitions whose leader was stopped in U3: a replica of the former AR may have been leader.

    Kafka leaves such a partition without a leader, in state OnlinePartition, until a broker starts or fails.
    """
    context = term.context
    leaderless = [
        partition
        for partition in partitions
        if context.partition_states.get(partition) is PartitionState.ONLINE
        and context.leadership[partition].leader_and_isr.leader == NO_LEADER
    ]
    await partition_state_machine.handle_state_changes(term, leaderless, PartitionState.OFFLINE)
    await partition_state_machine.handle_state_changes(term, leaderless, PartitionState.ONLINE)


async def _move_to_new(term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]) -> None:
    """Move replicas that were never started to NewReplica; each broker is sent requests of its own (A2).

    A replica that was started before is not new. Kafka tries to move it to NewReplica whenever a reassignment is
    resumed, and logs an invalid transition.
    """
    for replica, partitions in replicas.items():
        unknown = [p for p in partitions if term.context.replica_state(replica, p) is ReplicaState.NON_EXISTENT]
        await replica_state_machine.handle_state_changes(term, {replica: unknown}, ReplicaState.NEW)


async def _update_leader_epochs_and_send_requests(
    term: Term, reassignments: Reassignments
) -> dict[TopicPartition, Outcome]:
    """Raise the epochs of the leaders, and send LeaderAndIsr with the new assignment to all replicas (A1, B3).

    A broker ignores a LeaderAndIsr whose leader epoch is not new. The replicas in AR receive it as new: they may be
    put into any log directory. A replica that existed before must not be created again because its directory is
    offline.
    """
    outcomes = await _update_leader_epochs(term, reassignments)
    batch = term.new_batch()
    for partition in states_of(outcomes):
        assignment = reassignments[partition]
        batch.add_leader_and_isr(assignment.origin_replicas, partition)
        batch.add_leader_and_isr(assignment.adding_replicas, partition, is_new=True)
    await term.flush(batch, "reassignment")
    return outcomes


async def _update_leader_epochs(term: Term, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Outcome]:
    """Raise each leader epoch by one. Kafka retries without end; here a state that keeps changing fails."""
    leadership = term.context.leadership
    before = {partition: leadership[partition] for partition in partitions if partition in leadership}
    writes = StateWrites(term, "reassignment", why=Strategy.REASSIGNMENT.value)
    with writes.failures_as_outcomes(partitions):
        while states := await writes.undecided():
            await writes.write({p: under_new_leader(state, state.leader, state.isr) for p, state in states.items()})
    written = writes.accepted
    raised = before.keys() & written.keys()
    if raised and not term.rules.context_takes_raised_leader_epoch.holds_for(f"{len(raised)} partitions"):
        term.context.put_leadership({partition: before[partition] for partition in sorted(raised)})
    for partition, state in with_a_line(log, written.items()):
        epochs = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
        log.info("updated leader epoch", partition=str(partition), **epochs)
    return writes.outcomes


def _failures(outcomes: Mapping[TopicPartition, Outcome]) -> Failures:
    return {
        partition: ApiError(Errors.UNKNOWN_SERVER_ERROR, outcome.message)
        for partition, outcome in outcomes.items()
        if not isinstance(outcome, LeaderAndIsr)
    }


# ------------------------------------------------------------------ phase B: all of TRS is in the ISR


async def _complete(term: Term, reassignments: Reassignments) -> Failures:
    """Phase B (RA-11). Returns the partitions that failed.

    A partition that could not be completed keeps its assignment in memory as it is in ZooKeeper, and is tried again
    when `maybe_complete` or a takeover next looks at it (RA-13).
    """
    if not reassignments:
        return {}
    context = term.context
    for partition, moved in with_a_line(log, reassignments.items()):
        log.info("target replicas have all caught up", partition=str(partition), replicas=moved.target_replicas)
    adding = _by_replica({partition: assignment.adding_replicas for partition, assignment in reassignments.items()})
    await _move_to_new(term, adding)
    await replica_state_machine.handle_state_changes(term, adding, ReplicaState.ONLINE)  # B1
    leaving = {partition: _leaving(term, partition, assignment) for partition, assignment in reassignments.items()}
    targets = {
        partition: ReplicaAssignment(assignment.target_replicas) for partition, assignment in reassignments.items()
    }
    for partition, target in targets.items():
        context.update_partition_assignment(partition, target)  # B2
    moved_leaders = await _move_leaders(term, targets, leaving)  # B3
    failures, ready = moved_leaders.failures, moved_leaders.ready
    unstopped = await _stop_replicas(term, _by_replica({p: leaving[p] for p in ready}))  # B4, B5
    finished = {partition: targets[partition] for partition in ready if partition not in unstopped}
    for partition, assignment in reassignments.items():
        if partition not in finished:
            context.update_partition_assignment(partition, assignment)
    failures |= await _write_assignments(term, finished)  # B6
    await _remove(term, {partition: target for partition, target in finished.items() if partition not in failures})
    return failures


def _leaving(term: Term, partition: TopicPartition, assignment: ReplicaAssignment) -> tuple[BrokerId, ...]:
    """Return RR, and the members of the ISR that are not assigned; those are marked as started, so that they can be
    stopped."""
    context = term.context
    known = context.leadership.get(partition)
    leaving = leaving_replicas(assignment, () if known is None else known.leader_and_isr.isr)
    for replica in leaving[len(assignment.removing_replicas) :]:
        # No StopReplica was sent to it, or a leader that writes its ISR itself added it to the ISR after that.
        replica_state_machine.mark_started(term, replica, partition)
    return leaving


class LeadersMoved(NamedTuple):
    """The result of B3."""

    ready: list[TopicPartition]
    """The partitions of the next step."""
    failures: Failures


async def _move_leaders(
    term: Term, targets: Reassignments, leaving: Mapping[TopicPartition, Sequence[BrokerId]]
) -> LeadersMoved:
    """Elect a leader from TRS if the leader is not in TRS, or else raise the leader epoch (B3).

    If no replica in TRS can lead, the replicas in RR are not stopped, because one of them may be able to. Kafka stops
    and deletes them, which may be the only replicas alive.
    """
    context, online = term.context, term.context.online_brokers()
    staying: dict[TopicPartition, ReplicaAssignment] = {}
    electing: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    for partition, target in targets.items():
        known = context.leadership.get(partition)
        if known is None:
            leaderless.append(partition)
        elif known.leader_and_isr.leader in target.replicas and known.leader_and_isr.leader in online.of(partition):
            staying[partition] = target
        else:
            electing.append(partition)
    for partition in with_a_line(log, staying):
        log.info("leader is in the target and stays", partition=str(partition), replicas=targets[partition].replicas)
    for partition in with_a_line(log, electing):
        log.info(
            "leader is not alive or not in the target, electing",
            partition=str(partition),
            replicas=targets[partition].replicas,
        )
    elected = await partition_state_machine.handle_state_changes(
        term, electing, PartitionState.ONLINE, Strategy.REASSIGNMENT
    )
    outcomes = await _update_leader_epochs_and_send_requests(term, staying)
    postponed = {p for p in electing if leaving[p] and not isinstance(elected.get(p), LeaderAndIsr)}
    if postponed:
        first = some(sorted(map(str, postponed)))
        log.warning(
            "no replica of the target can lead; the others are not stopped",
            some_partitions=first,
            partitions=len(postponed),
        )
    failures = _failures(outcomes)
    unready = {p for p in electing if p in postponed or p not in elected} | failures.keys()
    return LeadersMoved([partition for partition in targets if partition not in unready], failures)


async def _stop_replicas(
    term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]
) -> frozenset[TopicPartition]:
    """Remove replicas from the ISR, then delete them (U3, B4, B5).

    Returns the partitions of the replicas that could not be removed from the ISR.
    """
    context = term.context
    started = {
        replica: [p for p in partitions if context.replica_state(replica, p) is not ReplicaState.NON_EXISTENT]
        for replica, partitions in replicas.items()
    }
    await replica_state_machine.handle_state_changes(term, started, ReplicaState.OFFLINE)
    stopped = {
        replica: [p for p in partitions if context.replica_state(replica, p) is ReplicaState.OFFLINE]
        for replica, partitions in started.items()
        if partitions
    }
    for state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
        await replica_state_machine.handle_state_changes(term, stopped, state)
    return frozenset(p for replica, partitions in started.items() for p in partitions if p not in stopped[replica])


async def _remove(term: Term, finished: Reassignments) -> None:
    """Remove completed reassignments from the znode and from memory, and send UpdateMetadata (B7, B8)."""
    if not finished:
        return
    context = term.context
    # The znode may hold the next reassignment of a partition by now.
    await remove_from_znode(
        term,
        lambda partition, asked: partition in finished and tuple(dict.fromkeys(asked)) == finished[partition].replicas,
    )
    context.partitions_being_reassigned.difference_update(finished)
    await term.send_update_metadata(context.live_or_shutting_down_broker_ids, finished)


# ------------------------------------------------------------------ by topic, by replica


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return list(dict.fromkeys(partition.topic for partition in partitions))


def _by_replica(replicas: Mapping[TopicPartition, Sequence[BrokerId]]) -> Mapping[BrokerId, Sequence[TopicPartition]]:
    return grouped((replica, partition) for partition, of_partition in replicas.items() for replica in of_partition)
