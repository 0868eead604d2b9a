"""Deletes topics: first the replicas, then the znodes. Mirrors `TopicDeletionManager`.

A child of `/admin/delete_topics`, the marker, queues a topic:

    1.  Stop reassignments, elections and growth of the topic.
    2.  Move its partitions to NonExistentPartition.
    3.  Send UpdateMetadata with leader −2, which removes the topic from every broker's metadata cache.
    4.  Send StopReplica to the replicas that are online, then StopReplica with deletion. If a replica is offline the
        topic becomes ineligible for deletion.
    5.  Wait for the responses of all brokers with a replica. An error makes the topic ineligible.
    6.  When all replicas are deleted: delete the topic's znodes, its config, and last the marker.

Every step may be repeated: a controller that takes over in between finds the marker and begins again. The topics are in

    topics_to_be_deleted             from step 1 on
    topics_with_deletion_started     from step 3 on
    topics_ineligible_for_deletion   waiting for a broker to start, or for the next takeover. Nothing else resumes them:
                                     a deletion that failed on a live broker is not repeated (BUG-16)

A reassignment ends when the deletion of its topic begins, so no deletion waits for one. Kafka means to wait (TD-12),
but checks before the topic is queued, when the check has no effect.

Replicas: Offline → DeletionStarted → DeletionSuccessful → NonExistent, or → DeletionIneligible → Offline, to begin
again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from understudy.controller import partition_state_machine, replica_state_machine
from understudy.controller.context import ControllerContext
from understudy.controller.events import TopicDeletionStopReplicaResponseReceived
from understudy.controller.reassignment.znode import remove_from_znode
from understudy.controller.term import Term
from understudy.controller.transitions import VALID_PREVIOUS_REPLICA_STATES, PartitionState, ReplicaState
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import TopicsChanged
from understudy.foundation.operator_lines import some
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.TopicDeletionManager")

Replicas = Mapping[BrokerId, Sequence[TopicPartition]]
"""By broker, the partitions it has a replica of."""


# ------------------------------------------------------------------ the start of a deletion


async def initialise(term: Term) -> None:
    """Load the queued topics at a takeover, and mark those with an offline replica as ineligible (FO-6, FO-7).

    A marker without a topic is also queued: the previous controller may have died between deleting the topic's znode
    and its marker.
    """
    queued = await term.zk.topic_deletions.topics(watch=True)
    if not term.settings.delete_topic_enable:
        await _ignore_markers(term, queued, "delete topic is disabled")
        return
    context = term.context
    context.topics_to_be_deleted = set(queued)
    _end_reassignments(context)
    context.topics_ineligible_for_deletion = _topics(_offline(context, queued))
    ineligible = sorted(context.topics_ineligible_for_deletion)
    log.info("initializing deletions", queued=some(queued), topic_count=len(queued), ineligible=some(ineligible))


def _end_reassignments(context: ControllerContext) -> None:
    """End the reassignments of queued topics: no leader is elected for them, and once the brokers have received leader
    −2 followers cannot fetch by topic id.

    Kafka waits for such a reassignment, until a broker happens to start.
    """
    for partition in sorted(context.partitions_being_reassigned):
        if context.is_topic_queued_for_deletion(partition.topic):
            context.partitions_being_reassigned.discard(partition)


async def process_topic_deletion(term: Term) -> None:
    """Queue the topics with a marker in `/admin/delete_topics` (TD-1)."""
    context = term.context
    marked = await term.zk.topic_deletions.topics(watch=True)
    await _ignore_markers(
        term, [topic for topic in marked if topic not in context.all_topics], "the topic does not exist"
    )
    existing = [topic for topic in marked if topic in context.all_topics]
    if not term.settings.delete_topic_enable:
        await _ignore_markers(term, existing, "delete topic is disabled")
    elif existing:
        log.info("starting topic deletion", topics=some(existing), topic_count=len(existing))
        context.topics_to_be_deleted.update(existing)
        await resume_deletions(term)


async def _ignore_markers(term: Term, topics: Sequence[str], why: str) -> None:
    if topics:
        log.warning("ignoring requests to delete topics", topics=some(topics), topic_count=len(topics), why=why)
        await _delete_markers(term, topics)


# ------------------------------------------------------------------ progress and failure


async def process_stop_replica_response(term: Term, event: TopicDeletionStopReplicaResponseReceived) -> None:
    """Mark replicas as deleted, or their topics as ineligible, according to a broker's response (TD-6)."""
    context, broker = term.context, event.broker_id
    if event.controller_epoch != context.epoch or event.broker_epoch != context.broker_epoch(broker):
        # Kafka also accepts responses of an earlier registration.
        return
    errors = {
        tp: error for tp, error in event.partition_errors.items() if tp.topic in context.topics_with_deletion_started
    }
    refused = event.request_error != Errors.NONE
    failed = [partition for partition, error in errors.items() if refused or error is not Errors.NONE]
    deleted = [partition for partition, error in errors.items() if not refused and error is Errors.NONE]
    if failed:
        log.error(
            "replicas were not deleted", broker=broker, partitions=len(failed), error=error_name(event.request_error)
        )
        await fail_replica_deletion(term, {broker: failed})
    if deleted:
        await _complete_replica_deletion(term, broker, deleted)


async def _complete_replica_deletion(term: Term, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
    """Mark replicas as deleted (TD-7). Responses to a request that was sent twice find them marked already."""
    context = term.context
    started = _only(
        _queued(context, {broker: partitions}),
        lambda broker, partition: context.replica_state(broker, partition) is ReplicaState.DELETION_STARTED,
    )
    await replica_state_machine.handle_state_changes(term, started, ReplicaState.DELETION_SUCCESSFUL)
    await resume_deletions(term)


async def fail_replica_deletion(term: Term, replicas: Replicas) -> None:
    """Mark replicas that cannot be deleted for now, and their topics, as ineligible (TD-8)."""
    failed = _queued(term.context, replicas)
    if failed:
        await _mark_replicas_ineligible(term, failed)
        _mark_ineligible(term, _topics(failed), "replica deletion failure")
        await resume_deletions(term)


def _mark_ineligible(term: Term, topics: Collection[str], why: str) -> None:
    """Mark the queued ones of `topics` as ineligible for deletion."""
    halted = sorted(term.context.topics_to_be_deleted.intersection(topics))
    if halted:
        term.context.topics_ineligible_for_deletion.update(halted)
        log.info("halted deletion of topics", topics=some(halted), topic_count=len(halted), why=why)


async def resume_deletions_for_topics(term: Term, topics: Collection[str]) -> None:
    """Make topics eligible again, because the broker they waited for has started, and resume deletions (TD-9)."""
    queued = term.context.topics_to_be_deleted.intersection(topics)
    if queued:
        term.context.topics_ineligible_for_deletion -= queued
        await resume_deletions(term)


def startable_replicas(context: ControllerContext, replicas: Replicas) -> Replicas:
    """Return `replicas` without those that are deleted or being deleted. Kafka also tries to start them, and logs an
    error for each."""
    if not context.topics_with_deletion_started:
        return replicas
    sources = VALID_PREVIOUS_REPLICA_STATES[ReplicaState.ONLINE]
    return _only(
        replicas,
        lambda broker, partition: (
            partition.topic not in context.topics_with_deletion_started
            or context.replica_state(broker, partition) in sources
        ),
    )


# ------------------------------------------------------------------ the next step of each queued topic


class NextSteps(NamedTuple):
    """Topics by their next step; one to be retried may also be one to be started."""

    complete: tuple[str, ...]
    retry: tuple[str, ...]
    start: tuple[str, ...]


def next_steps(context: ControllerContext) -> NextSteps:
    """Return the next step of each queued topic (TD-3). A topic without replicas counts as deleted: only its znodes are
    left."""
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
    """Take the next step of every queued topic that has one (TD-3)."""
    steps = next_steps(term.context)
    if steps.complete:
        await _complete_delete_topics(term, steps.complete)
    if steps.retry:
        ineligible = _in_state(term.context, steps.retry, ReplicaState.DELETION_INELIGIBLE)
        await replica_state_machine.handle_state_changes(term, ineligible, ReplicaState.OFFLINE)
    if steps.start:
        log.info("deletion of topics (re)started", topics=some(steps.start), topic_count=len(steps.start))
        await _on_topic_deletion(term, steps.start)


async def _on_topic_deletion(term: Term, topics: Sequence[str]) -> None:
    """End the partitions, and remove the topics from the brokers' metadata before the replicas stop: steps 2 and 3
    (TD-4)."""
    context = term.context
    unseen = [topic for topic in topics if topic not in context.topics_with_deletion_started]
    ending = [partition for topic in unseen for partition in context.partitions_for_topic(topic)]
    await partition_state_machine.handle_state_changes(term, ending, PartitionState.OFFLINE)
    await partition_state_machine.handle_state_changes(term, ending, PartitionState.NON_EXISTENT)
    context.topics_with_deletion_started.update(unseen)
    # All replicas are stopped, so a reassignment is over. In Kafka it stays in progress, and the marker of any other
    # topic makes this topic wait for it.
    context.partitions_being_reassigned.difference_update(ending)

    partitions = [partition for topic in topics for partition in context.partitions_for_topic(topic)]
    batch = term.new_batch()
    batch.add_update_metadata(context.live_or_shutting_down_broker_ids, partitions)
    await term.flush(batch, "deletion")
    await _on_partition_deletion(term, topics)


async def _on_partition_deletion(term: Term, topics: Sequence[str]) -> None:
    """Stop and delete the online replicas; topics with an offline replica become ineligible: step 4 (TD-5)."""
    context = term.context
    online = context.online_brokers()

    def can_be_deleted(broker: BrokerId, partition: TopicPartition) -> bool:
        deleted = context.replica_state(broker, partition) is ReplicaState.DELETION_SUCCESSFUL
        return broker in online.of(partition) and not deleted

    alive, dead = _only(_replicas(context, topics), can_be_deleted), _offline(context, topics)
    await _mark_replicas_ineligible(term, dead)
    await replica_state_machine.handle_state_changes(term, alive, ReplicaState.OFFLINE)
    # A deposed controller cannot move them to Offline. Kafka sends StopReplica with deletion all the same.
    stopped = _only(alive, lambda broker, partition: context.replica_state(broker, partition) is ReplicaState.OFFLINE)
    await replica_state_machine.handle_state_changes(term, stopped, ReplicaState.DELETION_STARTED)
    _mark_ineligible(term, _topics(dead), "offline replicas")


async def _mark_replicas_ineligible(term: Term, replicas: Replicas) -> None:
    """Move replicas to DeletionIneligible if that is valid. Kafka tries it for all, and logs an error for each deleted
    one."""
    sources = VALID_PREVIOUS_REPLICA_STATES[ReplicaState.DELETION_INELIGIBLE]
    stopped = _only(replicas, lambda broker, partition: term.context.replica_state(broker, partition) in sources)
    await replica_state_machine.handle_state_changes(term, stopped, ReplicaState.DELETION_INELIGIBLE)


# ------------------------------------------------------------------ the end of a topic


async def _complete_delete_topics(term: Term, topics: Sequence[str]) -> None:
    """Delete the topics from ZooKeeper, then from memory: step 6 (TD-10).

    Kafka unregisters its handler of the topic's znode first, so that it is not called for a new topic of the same name;
    here the watch is gone with the znode. Kafka deletes one topic after the other; here several share transactions.
    """
    deleted = _in_state(term.context, topics, ReplicaState.DELETION_SUCCESSFUL)
    await replica_state_machine.handle_state_changes(term, deleted, ReplicaState.NON_EXISTENT)
    removed = await _remove_from_zookeeper(term, topics)
    if not removed:
        return
    for topic in removed:
        term.context.remove_topic(topic)
    term.events.append(TopicsChanged(new=(), deleted=tuple(removed)))
    log.info("deletion of topics successfully completed", topics=some(removed), topic_count=len(removed))


async def _remove_from_zookeeper(term: Term, topics: Sequence[str]) -> list[str]:
    """Delete the znodes of `topics`; return the topics that are gone.

    A topic that ZooKeeper refuses to delete delays no other, and is tried again with the next step of any deletion. In
    Kafka no topic is deleted after it, and no broker can become controller.

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
    """Delete the marker last, so that a controller that takes over in between continues."""
    zk, epoch_zk_version = term.zk, term.context.epoch_zk_version
    partitions_by_topic = {topic: term.context.partitions_for_topic(topic) for topic in topics}
    await _remove_from_reassignments(term, topics)
    await term.points.reach("deletion.before_write")
    await zk.topics.delete(partitions_by_topic, epoch_zk_version)
    await term.points.reach("deletion.after_write")
    await term.points.reach("deletion.configs.before_write")
    await zk.configs.delete_of_topics(topics, epoch_zk_version)
    await term.points.reach("deletion.configs.after_write")
    await _delete_markers(term, topics)


async def _remove_from_reassignments(term: Term, topics: Sequence[str]) -> None:
    """Remove these topics from `/admin/reassign_partitions`.

    Kafka leaves them there, and the next controller reassigns the partitions of a new topic of the same name.
    """
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


def _only(replicas: Replicas, wanted: Callable[[BrokerId, TopicPartition], bool]) -> Replicas:
    """Return the replicas for which `wanted` holds; brokers without any are left out."""
    chosen = {
        broker: [partition for partition in partitions if wanted(broker, partition)]
        for broker, partitions in replicas.items()
    }
    return {broker: partitions for broker, partitions in chosen.items() if partitions}


def _offline(context: ControllerContext, topics: Iterable[str]) -> Replicas:
    online = context.online_brokers()
    return _only(_replicas(context, topics), lambda broker, partition: broker not in online.of(partition))


def _in_state(context: ControllerContext, topics: Iterable[str], state: ReplicaState) -> Replicas:
    return _only(
        _replicas(context, topics), lambda broker, partition: context.replica_state(broker, partition) is state
    )


def _queued(context: ControllerContext, replicas: Replicas) -> Replicas:
    return _only(replicas, lambda _, partition: context.is_topic_queued_for_deletion(partition.topic))


def _topics(replicas: Replicas) -> set[str]:
    return {partition.topic for partitions in replicas.values() for partition in partitions}
