"""Topics are deleted: their replicas first, then what ZooKeeper holds of them. Mirrors `TopicDeletionManager`.

A marker in `/admin/delete_topics` queues a topic. From then on nobody leads its partitions: UpdateMetadata says so with
leader −2, which takes the topic out of every broker's metadata, StopReplica ends its replicas and, in a second request,
removes their data. When every replica's broker has answered, the topic's znodes go: the topic, its configuration, the
marker. Whoever takes over in between finds the marker and begins again; every step bears being done twice.

    queued                topics_to_be_deleted; no elections, no growth, no reassignment
    started               topics_with_deletion_started; its partitions are NonExistent
    ineligible            topics_ineligible_for_deletion; waits for a broker to start, or for the next takeover. Nothing
                          else makes it go on: a deletion that failed on a healthy broker is not tried again by itself
                          (BUG-16)

A move ends where the deletion of its topic begins, so no deletion waits for one. Kafka means to wait (TD-12), but asks
before the topic is queued, when the answer has no effect.

Replicas: Offline → DeletionStarted → DeletionSuccessful → NonExistent, or → DeletionIneligible → Offline, to begin
again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from controller import partition_state_machine, replica_state_machine
from controller.context import ControllerContext
from controller.events import TopicDeletionStopReplicaResponseReceived
from controller.reassignment.znode import remove_from_znode
from controller.term import Term
from controller.transitions import VALID_PREVIOUS_REPLICA_STATES, PartitionState, ReplicaState
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.eventlog.records import TopicsChanged
from foundation.operator_lines import some
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.TopicDeletionManager")

Replicas = Mapping[BrokerId, Sequence[TopicPartition]]
"""By broker the partitions it has a replica of."""


# ------------------------------------------------------------------ what begins a deletion


async def initialise(term: Term) -> None:
    """FO-6, FO-7: what was queued when this controller took over, and what of it must wait.

    A marker without a topic is queued too: a predecessor may have died between the topic's znode and the marker.
    """
    queued = await term.zk.topic_deletions.topics(watch=True)
    if not term.settings.delete_topic_enable:
        await _drop_markers(term, queued, "delete topic is disabled")
        return
    context = term.context
    context.topics_to_be_deleted = set(queued)
    _end_moves(context)
    context.topics_ineligible_for_deletion = _topics_of(_offline(context, queued))
    ineligible = sorted(context.topics_ineligible_for_deletion)
    log.info("initializing deletions", queued=some(queued), count=len(queued), ineligible=some(ineligible))


def _end_moves(context: ControllerContext) -> None:
    """A move of a topic that is to be deleted cannot end: nobody elects a leader for it, and as soon as the brokers are
    told that it goes (leader −2), its followers cannot fetch it by its id any more.

    Kafka waits for it all the same, until a broker happens to start.
    """
    for partition in sorted(context.partitions_being_reassigned):
        if context.is_topic_queued_for_deletion(partition.topic):
            context.partitions_being_reassigned.discard(partition)


async def process_topic_deletion(term: Term) -> None:
    """TD-1: markers have appeared in `/admin/delete_topics`."""
    context = term.context
    marked = await term.zk.topic_deletions.topics(watch=True)
    await _drop_markers(
        term, [topic for topic in marked if topic not in context.all_topics], "the topic does not exist"
    )
    existing = [topic for topic in marked if topic in context.all_topics]
    if not term.settings.delete_topic_enable:
        await _drop_markers(term, existing, "delete topic is disabled")
    elif existing:
        log.info("starting topic deletion", topics=some(existing), count=len(existing))
        context.topics_to_be_deleted.update(existing)
        await resume_deletions(term)


async def _drop_markers(term: Term, topics: Sequence[str], why: str) -> None:
    if topics:
        log.warning("ignoring requests to delete topics", topics=some(topics), count=len(topics), why=why)
        await _delete_markers(term, topics)


# ------------------------------------------------------------------ what lets it go on, and what holds it up


async def process_stop_replica_response(term: Term, event: TopicDeletionStopReplicaResponseReceived) -> None:
    """TD-6: a broker has deleted replicas, or says why not."""
    context, broker = term.context, event.broker_id
    if event.controller_epoch != context.epoch or event.broker_epoch != context.broker_epoch(broker):
        # Kafka would take what a broker's old life deleted for deleted by its new one.
        return
    errors = {
        tp: error for tp, error in event.partition_errors.items() if tp.topic in context.topics_with_deletion_started
    }
    refused = event.request_error is not Errors.NONE
    failed = [partition for partition, error in errors.items() if refused or error is not Errors.NONE]
    deleted = [partition for partition, error in errors.items() if not refused and error is Errors.NONE]
    if failed:
        log.error("replicas were not deleted", broker=broker, partitions=len(failed), error=event.request_error.name)
        await fail_replica_deletion(term, {broker: failed})
    if deleted:
        await _complete_replica_deletion(term, broker, deleted)


async def _complete_replica_deletion(term: Term, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """TD-7. An answer to a request that was sent twice finds its replicas moved on already."""
    context = term.context
    started = _where(
        _queued(context, {broker: partitions}),
        lambda broker, partition: context.replica_state(broker, partition) is ReplicaState.DELETION_STARTED,
    )
    await replica_state_machine.handle_state_changes(term, started, ReplicaState.DELETION_SUCCESSFUL)
    await resume_deletions(term)


async def fail_replica_deletion(term: Term, replicas: Replicas) -> None:
    """TD-8: these replicas cannot be deleted for now; their topics wait."""
    failed = _queued(term.context, replicas)
    if failed:
        await _mark_replicas_ineligible(term, failed)
        _mark_ineligible(term, _topics_of(failed), "replica deletion failure")
        await resume_deletions(term)


def _mark_ineligible(term: Term, topics: Collection[str], why: str) -> None:
    """Queued topics that must wait."""
    halted = sorted(term.context.topics_to_be_deleted.intersection(topics))
    if halted:
        term.context.topics_ineligible_for_deletion.update(halted)
        log.info("halted deletion of topics", topics=some(halted), count=len(halted), why=why)


async def resume_deletions_for_topics(term: Term, topics: Collection[str]) -> None:
    """TD-9: what these topics waited for has happened."""
    queued = term.context.topics_to_be_deleted.intersection(topics)
    if queued:
        term.context.topics_ineligible_for_deletion -= queued
        await resume_deletions(term)


def that_may_start(context: ControllerContext, replicas: Replicas) -> Replicas:
    """Without those whose data is gone, or about to go. Kafka tries to start them all the same, and logs an error for
    each."""
    if not context.topics_with_deletion_started:
        return replicas
    sources = VALID_PREVIOUS_REPLICA_STATES[ReplicaState.ONLINE]
    return _where(
        replicas,
        lambda broker, partition: (
            partition.topic not in context.topics_with_deletion_started
            or context.replica_state(broker, partition) in sources
        ),
    )


# ------------------------------------------------------------------ the next step of each queued topic


class NextSteps(NamedTuple):
    """Topics by what is next for them; one that is to be retried may be to be started as well."""

    complete: tuple[str, ...]
    retry: tuple[str, ...]
    start: tuple[str, ...]


def next_steps(context: ControllerContext) -> NextSteps:
    """TD-3, the decision. A topic without replicas has all of them deleted: of such a one only znodes are left."""
    complete, retry, start = [], [], []
    for topic in sorted(context.topics_to_be_deleted):
        states = {
            context.replica_state(replica, partition)
            for partition, assignment in context.assignments_for_topic(topic).items()
            for replica in assignment.replicas
        }
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            complete.append(topic)
        elif ReplicaState.DELETION_STARTED not in states:
            if ReplicaState.DELETION_INELIGIBLE in states:
                retry.append(topic)
            if topic not in context.topics_ineligible_for_deletion:
                start.append(topic)
    return NextSteps(tuple(complete), tuple(retry), tuple(start))


async def resume_deletions(term: Term) -> None:
    """TD-3: go on with every queued topic as far as it can be gone on with."""
    steps = next_steps(term.context)
    if steps.complete:
        await _complete_delete_topics(term, steps.complete)
    if steps.retry:
        ineligible = _in_state(term.context, steps.retry, ReplicaState.DELETION_INELIGIBLE)
        await replica_state_machine.handle_state_changes(term, ineligible, ReplicaState.OFFLINE)
    if steps.start:
        log.info("deletion of topics (re)started", topics=some(steps.start), count=len(steps.start))
        await _on_topic_deletion(term, steps.start)


async def _on_topic_deletion(term: Term, topics: Sequence[str]) -> None:
    """TD-4: the partitions end, and the brokers forget them before their replicas stop."""
    context = term.context
    unseen = [topic for topic in topics if topic not in context.topics_with_deletion_started]
    ending = [partition for topic in unseen for partition in context.partitions_for_topic(topic)]
    await partition_state_machine.handle_state_changes(term, ending, PartitionState.OFFLINE)
    await partition_state_machine.handle_state_changes(term, ending, PartitionState.NON_EXISTENT)
    context.topics_with_deletion_started.update(unseen)
    # A move ends with its topic, all of whose replicas are stopped. Kafka takes it for one that is going on, and the
    # marker of any other topic makes this one wait for it.
    context.partitions_being_reassigned.difference_update(ending)

    partitions = [partition for topic in topics for partition in context.partitions_for_topic(topic)]
    batch = term.new_batch()
    batch.add_update_metadata(context.live_or_shutting_down_broker_ids, partitions)
    await term.flush(batch, "deletion")
    await _on_partition_deletion(term, topics)


async def _on_partition_deletion(term: Term, topics: Sequence[str]) -> None:
    """TD-5: the replicas that are alive stop, then lose their data; topics with others must wait for those."""
    context = term.context
    online = context.online_brokers()

    def can_be_deleted(broker: BrokerId, partition: TopicPartition) -> bool:
        deleted = context.replica_state(broker, partition) is ReplicaState.DELETION_SUCCESSFUL
        return broker in online.of(partition) and not deleted

    alive, dead = _where(_replicas(context, topics), can_be_deleted), _offline(context, topics)
    await _mark_replicas_ineligible(term, dead)
    await replica_state_machine.handle_state_changes(term, alive, ReplicaState.OFFLINE)
    # A controller that does not know that it has been replaced cannot stop them; Kafka asks for their deletion all the
    # same.
    stopped = _where(alive, lambda broker, partition: context.replica_state(broker, partition) is ReplicaState.OFFLINE)
    await replica_state_machine.handle_state_changes(term, stopped, ReplicaState.DELETION_STARTED)
    _mark_ineligible(term, _topics_of(dead), "offline replicas")


async def _mark_replicas_ineligible(term: Term, replicas: Replicas) -> None:
    """Those that may be. Kafka asks for all and logs an error for each that is deleted already or was never stopped."""
    sources = VALID_PREVIOUS_REPLICA_STATES[ReplicaState.DELETION_INELIGIBLE]
    stopped = _where(replicas, lambda broker, partition: term.context.replica_state(broker, partition) in sources)
    await replica_state_machine.handle_state_changes(term, stopped, ReplicaState.DELETION_INELIGIBLE)


# ------------------------------------------------------------------ the end of a topic


async def _complete_delete_topics(term: Term, topics: Sequence[str]) -> None:
    """TD-10: out of ZooKeeper, then out of memory.

    Kafka unregisters its handler of the topic's znode first, lest it speaks of a successor with the same name; here the
    watch itself is gone with the znode. Kafka finishes one topic after the other; here those that end together share
    transactions.
    """
    deleted = _in_state(term.context, topics, ReplicaState.DELETION_SUCCESSFUL)
    await replica_state_machine.handle_state_changes(term, deleted, ReplicaState.NON_EXISTENT)
    removed = await _remove_from_zookeeper(term, topics)
    if not removed:
        return
    for topic in removed:
        term.context.remove_topic(topic)
    term.events.append(TopicsChanged(new=(), deleted=tuple(removed)))
    log.info("deletion of topics successfully completed", topics=some(removed), count=len(removed))


async def _remove_from_zookeeper(term: Term, topics: Sequence[str]) -> list[str]:
    """Returns the topics that are gone. One that ZooKeeper does not let go holds up nobody, and is tried again with the
    next step of any deletion; in Kafka no topic goes after it, and nobody can become controller.

    Raises:
        ZooKeeperFailure: UNKNOWN; memory cannot be trusted.
    """
    try:
        await _delete_znodes(term, topics)
    except ZooKeeperFailure as failure:
        if failure.failure is Failure.UNKNOWN:
            raise
        if len(topics) > 1:
            return [removed for topic in topics for removed in await _remove_from_zookeeper(term, [topic])]
        log.error("a topic could not be deleted from zookeeper", topic=topics[0], why=str(failure))
        return []
    return list(topics)


async def _delete_znodes(term: Term, topics: Sequence[str]) -> None:
    """The marker last, so that whoever takes over in between goes on."""
    zk, epoch_zk_version = term.zk, term.context.epoch_zk_version
    partitions_by_topic = {topic: term.context.partitions_for_topic(topic) for topic in topics}
    await _forget_moves(term, topics)
    await term.points.reach("deletion.before_write")
    await zk.topics.delete(partitions_by_topic, epoch_zk_version)
    await term.points.reach("deletion.after_write")
    await term.points.reach("deletion.configs.before_write")
    await zk.configs.delete_of_topics(topics, epoch_zk_version)
    await term.points.reach("deletion.configs.after_write")
    await _delete_markers(term, topics)


async def _forget_moves(term: Term, topics: Sequence[str]) -> None:
    """What `/admin/reassign_partitions` still asks of these topics. Kafka leaves it, and the next controller to take
    over moves the partitions of whoever has been given the name meanwhile."""
    gone = frozenset(topics)
    asked = await term.zk.reassignments.read() or ()
    if any(partition.topic in gone for partition in asked):
        await remove_from_znode(term, lambda partition, _: partition.topic in gone)


async def _delete_markers(term: Term, topics: Sequence[str]) -> None:
    await term.points.reach("deletion.markers.before_write")
    await term.zk.topic_deletions.unmark(topics, term.context.epoch_zk_version)
    await term.points.reach("deletion.markers.after_write")


# ------------------------------------------------------------------ replicas, by broker


def _replicas(context: ControllerContext, topics: Iterable[str]) -> Replicas:
    return context.partitions_by_replica(
        partition for topic in topics for partition in context.partitions_for_topic(topic)
    )


def _where(replicas: Replicas, wanted: Callable[[BrokerId, TopicPartition], bool]) -> Replicas:
    """Those that are `wanted`; brokers without any are left out."""
    chosen = {
        broker: [partition for partition in partitions if wanted(broker, partition)]
        for broker, partitions in replicas.items()
    }
    return {broker: partitions for broker, partitions in chosen.items() if partitions}


def _offline(context: ControllerContext, topics: Iterable[str]) -> Replicas:
    online = context.online_brokers()
    return _where(_replicas(context, topics), lambda broker, partition: broker not in online.of(partition))


def _in_state(context: ControllerContext, topics: Iterable[str], state: ReplicaState) -> Replicas:
    return _where(
        _replicas(context, topics), lambda broker, partition: context.replica_state(broker, partition) is state
    )


def _queued(context: ControllerContext, replicas: Replicas) -> Replicas:
    return _where(replicas, lambda _, partition: context.is_topic_queued_for_deletion(partition.topic))


def _topics_of(replicas: Replicas) -> set[str]:
    return {partition.topic for partitions in replicas.values() for partition in partitions}
