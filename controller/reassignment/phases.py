"""A partition moves, phase by phase. Mirrors `onPartitionReassignment` (KIP-455).

RS is all replicas of a partition, ORS the origin, TRS the target.

    U  whenever the assignment changes: RS = TRS + ORS in the topic's znode, then in memory; replicas that were being
    added and
       are not wanted any more stop
    A  until TRS is in sync: a new leader epoch, by which every replica hears of RS; the replicas being added start to
    fetch
    B  once it is: one of TRS leads, the others stop and are deleted, and only then the topic's znode says RS = TRS

The znode changes last on purpose: until then it holds the origin, and whoever takes over in the middle goes through
phase B again (RA-12). Nobody waits for the replicas to be deleted, or tries again (BUG-15).

A topic's znode holds all its partitions, and each move writes it when it begins and when it ends. Kafka takes one
partition
after the other: 10,000 in one request are 10,000 writes of half a megabyte, twice. Here a few take their turns one by
one just as in Kafka; many share at most `TURNS` turns, in which each goes through the same steps in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import structlog
from msgspec.structs import asdict

from controller import partition_state_machine, replica_state_machine
from controller.leader_election import under_new_leader
from controller.partition_state_machine import Strategy
from controller.reassignment.decisions import in_groups, is_complete, leaving_replicas
from controller.reassignment.znode import remove_from_znode
from controller.state_writes import Decision, States, StateWrites
from controller.term import Term
from controller.transitions import PartitionState, ReplicaState
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import NO_LEADER, LeaderAndIsr, LeaderIsrAndControllerEpoch
from foundation.operator_lines import some, with_a_line
from foundation.zk.client import MAX_REQUEST_BYTES, Failure
from foundation.zk.kafka_zk_client import TopicAssignment

TURNS = 20

Reassignments: TypeAlias = Mapping[TopicPartition, ReplicaAssignment]
_Failures: TypeAlias = dict[TopicPartition, ApiError]

log: structlog.stdlib.BoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def on_partition_reassignment(term: Term, reassignments: Reassignments) -> dict[TopicPartition, ApiError]:
    """Go on with these moves, or begin them, as far as they can be gone on with. Returns those that failed, and why."""
    failures: _Failures = {}
    for partition, assignment in with_a_line(log, reassignments.items()):
        log.info("reassigning partition", partition=str(partition), **asdict(assignment))
    for turn in in_groups(reassignments, TURNS):
        updated = await _update_assignments(term, turn, failures)
        complete = await _complete_ones(term, updated)
        await _begin(term, {p: assignment for p, assignment in updated.items() if p not in complete}, failures)
        await _finish(term, complete, failures)
    _log_failures(failures)
    return failures


async def complete_reassignments(term: Term, reassignments: Reassignments) -> None:
    """Phase B for those that have arrived; the others are left alone."""
    failures: _Failures = {}
    for turn in in_groups(await _complete_ones(term, reassignments), TURNS):
        await _finish(term, turn, failures)
    _log_failures(failures)


def _log_failures(failures: _Failures) -> None:
    for partition, error in with_a_line(log, failures.items()):
        log.error("error completing reassignment", partition=str(partition), why=error.message)


async def _complete_ones(term: Term, reassignments: Reassignments) -> Reassignments:
    """RA-9. The ISRs are read, as in Kafka, though memory is what ZooKeeper last accepted (D15): a leader older than
    KIP-497 writes its ISR itself, and memory hears of it late. In a cluster of such leaders the states are watched,
    too."""
    if not reassignments:
        return {}
    watch = not term.settings.inter_broker_protocol_version.is_alter_partition_supported
    states = await term.zk.states.read(list(reassignments), watch=watch)
    found = {partition: state for partition, state in states.items() if not isinstance(state, Failure)}
    _remember(term, found)
    return {
        partition: assignment
        for partition, assignment in reassignments.items()
        if is_complete(assignment, found[partition].leader_and_isr.isr if partition in found else None)
    }


def _remember(term: Term, found: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]) -> None:
    known = term.context.leadership
    news = {p: state for p, state in found.items() if p not in known or known[p].leader_and_isr != state.leader_and_isr}
    if news:
        term.context.put_leadership(news)


# ------------------------------------------------------------------ phase U: the assignment changes


async def _update_assignments(term: Term, reassignments: Reassignments, failures: _Failures) -> Reassignments:
    """RA-8. Returns those whose assignment is now as it shall be."""
    context = term.context
    changed = {p: wanted for p, wanted in reassignments.items() if context.partition_assignment(p) != wanted}
    await _write_assignments(term, changed, failures)
    for partition, wanted in with_a_line(log, changed.items()):
        if partition not in failures:
            log.info("updated current assignment", partition=str(partition), **asdict(wanted))
    unneeded: dict[BrokerId, list[TopicPartition]] = {}
    for partition, reassignment in changed.items():
        if partition not in failures:
            before = context.partition_assignment(partition)
            context.update_partition_assignment(partition, reassignment)
            for replica in before.replicas:
                if replica not in reassignment.replicas:
                    unneeded.setdefault(replica, []).append(partition)
    await _stop_replicas(term, unneeded)
    updated = {partition: assignment for partition, assignment in reassignments.items() if partition not in failures}
    context.partitions_being_reassigned.update(updated)
    return updated


async def _write_assignments(term: Term, reassignments: Reassignments, failures: _Failures) -> None:
    """U1 and B6: each topic as memory has it, but for these partitions. Unlike in Kafka, partitions that somebody has
    added to the znode meanwhile and memory has not heard of stay (BUG-18)."""
    if not reassignments:
        return
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
    for partition in reassignments:
        if partition.topic in failed:
            failures[partition] = _unwritten(partition.topic, failed[partition.topic])


def _unwritten(topic: str, failure: Failure) -> ApiError:
    if failure is Failure.TOO_LARGE:
        why = (
            f"topic {topic} with the replicas to be added does not fit into its znode; a request to ZooKeeper may have "
            f"{MAX_REQUEST_BYTES} bytes: reassign fewer partitions at a time"
        )
    else:
        why = f"the assignment of topic {topic} could not be written: {failure.value}"
    return ApiError(Errors.UNKNOWN_SERVER_ERROR, why)


# ------------------------------------------------------------------ phase A: not all of the target is in sync


async def _begin(term: Term, reassignments: Reassignments, failures: _Failures) -> None:
    """RA-10."""
    await _elect_in_place_of_the_stopped(term, reassignments)
    told = await _update_leader_epochs_and_send_requests(term, reassignments, failures)
    await _start_new(
        term, _by_replica({partition: assignment.adding_replicas for partition, assignment in told.items()})
    )


async def _elect_in_place_of_the_stopped(term: Term, partitions: Iterable[TopicPartition]) -> None:
    """A replica that was being added may lead already. Where another move has stopped it, Kafka leaves its partition
    without a leader, and takes it for online, until some broker starts or dies."""
    context = term.context
    unled = [
        partition
        for partition in partitions
        if context.partition_states.get(partition) is PartitionState.ONLINE
        and context.leadership[partition].leader_and_isr.leader == NO_LEADER
    ]
    await partition_state_machine.handle_state_changes(term, unled, PartitionState.OFFLINE)
    await partition_state_machine.handle_state_changes(term, unled, PartitionState.ONLINE)


async def _start_new(term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]) -> None:
    """A2: broker after broker, each with requests of its own. A replica that has started before is not new; Kafka tries
    to make it so whenever a move is resumed, and logs an invalid transition."""
    for replica, partitions in replicas.items():
        states = term.context.replica_states.get(replica, {})
        unknown = [p for p in partitions if states.get(p, ReplicaState.NON_EXISTENT) is ReplicaState.NON_EXISTENT]
        await replica_state_machine.handle_state_changes(term, {replica: unknown}, ReplicaState.NEW)


async def _update_leader_epochs_and_send_requests(
    term: Term, reassignments: Reassignments, failures: _Failures
) -> Reassignments:
    """A1 and B3: the leader stays; everybody hears of the assignment, because nobody heeds a LeaderAndIsr of the same
    epoch.

    The replicas being added hear that they are new: they may be put on any log directory, whereas one that has been
    there before must not be made anew because its directory is offline.

    Returns those whose replicas have been told.
    """
    written = await _update_leader_epochs(term, list(reassignments), failures)
    batch = term.new_batch()
    for partition in written:
        assignment = reassignments[partition]
        batch.add_leader_and_isr(assignment.origin_replicas, partition)
        batch.add_leader_and_isr(assignment.adding_replicas, partition, is_new=True)
    await term.flush(batch, "reassignment")
    return {partition: reassignments[partition] for partition in written}


async def _update_leader_epochs(
    term: Term, partitions: Sequence[TopicPartition], failures: _Failures
) -> dict[TopicPartition, LeaderAndIsr]:
    """Raise each leader epoch by one. Kafka tries for ever; here a state that keeps changing fails its partition."""

    def decide(states: States) -> Decision:
        return Decision({p: under_new_leader(state, state.leader, state.isr) for p, state in states.items()})

    writes = StateWrites(term, "reassignment", why=Strategy.REASSIGNMENT.value)
    written: dict[TopicPartition, LeaderAndIsr] = {}
    for partition, outcome in (await writes.decide_and_write(partitions, decide)).items():
        if isinstance(outcome, LeaderAndIsr):
            written[partition] = outcome
        else:
            failures[partition] = ApiError(Errors.UNKNOWN_SERVER_ERROR, outcome.message)
    for partition, state in with_a_line(log, written.items()):
        epochs = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
        log.info("updated leader epoch", partition=str(partition), **epochs)
    return written


# ------------------------------------------------------------------ phase B: the target is in sync


async def _finish(term: Term, reassignments: Reassignments, failures: _Failures) -> None:
    """RA-11. What could not be finished stays on the move as ZooKeeper has it, for the next occasion to look
    (RA-13)."""
    if not reassignments:
        return
    context = term.context
    for partition, moved in with_a_line(log, reassignments.items()):
        log.info("target replicas have all caught up", partition=str(partition), replicas=moved.target_replicas)
    adding = _by_replica({partition: assignment.adding_replicas for partition, assignment in reassignments.items()})
    await _start_new(term, adding)
    await replica_state_machine.handle_state_changes(term, adding, ReplicaState.ONLINE)
    leaving = {partition: _leaving(term, partition, assignment) for partition, assignment in reassignments.items()}
    targets = {
        partition: ReplicaAssignment(assignment.target_replicas) for partition, assignment in reassignments.items()
    }
    for partition, target in targets.items():
        context.update_partition_assignment(partition, target)
    led = await _move_leaders(term, targets, leaving, failures)
    unstopped = await _stop_replicas(term, _by_replica({partition: leaving[partition] for partition in led}))
    finished = {partition: targets[partition] for partition in led if partition not in unstopped}
    for partition, assignment in reassignments.items():
        if partition not in finished:
            context.update_partition_assignment(partition, assignment)
    await _write_assignments(term, finished, failures)
    await _forget(term, {partition: target for partition, target in finished.items() if partition not in failures})


def _leaving(term: Term, partition: TopicPartition, assignment: ReplicaAssignment) -> tuple[BrokerId, ...]:
    context = term.context
    known = context.leadership.get(partition)
    leaving = leaving_replicas(assignment, () if known is None else known.leader_and_isr.isr)
    for replica in leaving[len(assignment.removing_replicas) :]:
        # It was never told to stop, or was told before a leader that writes its ISR itself had taken it in.
        replica_state_machine.mark_started(term, replica, partition)
    return leaving


async def _move_leaders(
    term: Term,
    targets: Reassignments,
    leaving: Mapping[TopicPartition, Sequence[BrokerId]],
    failures: _Failures,
) -> list[TopicPartition]:
    """B3. Returns those to go on with.

    Where nobody of the target can lead and others still could, these are not stopped. Kafka does stop them, and deletes
    what may be the only replicas that are alive.
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
    told = await _update_leader_epochs_and_send_requests(term, staying, failures)
    put_off = {p for p in electing if leaving[p] and not isinstance(elected.get(p), LeaderAndIsr)}
    if put_off:
        first = some(sorted(map(str, put_off)))
        log.warning(
            "no replica of the target can lead; the others are not stopped", partitions=first, count=len(put_off)
        )
    return [p for p in targets if p in told or p in leaderless or (p in elected and p not in put_off)]


async def _stop_replicas(
    term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]
) -> frozenset[TopicPartition]:
    """B4, B5 and U3: out of the ISR, then deleted. Returns the partitions with a replica that could not leave the
    ISR."""
    known = term.context.replica_states
    started = {
        replica: [
            p
            for p in partitions
            if known.get(replica, {}).get(p, ReplicaState.NON_EXISTENT) is not ReplicaState.NON_EXISTENT
        ]
        for replica, partitions in replicas.items()
    }
    await replica_state_machine.handle_state_changes(term, started, ReplicaState.OFFLINE)
    stopped = {
        replica: [p for p in partitions if known[replica][p] is ReplicaState.OFFLINE]
        for replica, partitions in started.items()
        if partitions
    }
    for state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
        await replica_state_machine.handle_state_changes(term, stopped, state)
    return frozenset(p for replica, partitions in started.items() for p in partitions if p not in stopped[replica])


async def _forget(term: Term, finished: Reassignments) -> None:
    """B7 and B8: the znode that asked for it, memory, metadata. Nobody waits to delete the topic: that would have ended
    the move (B9)."""
    if not finished:
        return
    context = term.context
    # The znode may ask for the next move of a partition by now.
    await remove_from_znode(
        term,
        lambda partition, asked: partition in finished and tuple(dict.fromkeys(asked)) == finished[partition].replicas,
    )
    context.partitions_being_reassigned.difference_update(finished)
    await term.send_update_metadata(context.live_or_shutting_down_broker_ids, finished)


# ------------------------------------------------------------------ by topic, by replica


def _topics(partitions: Iterable[TopicPartition]) -> list[str]:
    return list(dict.fromkeys(partition.topic for partition in partitions))


def _by_replica(replicas: Mapping[TopicPartition, Sequence[BrokerId]]) -> dict[BrokerId, list[TopicPartition]]:
    found: dict[BrokerId, list[TopicPartition]] = {}
    for partition, of_partition in replicas.items():
        for replica in of_partition:
            found.setdefault(replica, []).append(partition)
    return found
