"""Topics are created and deleted by hand, and partitions are added. Mirrors `processTopicChange` and
`processPartitionModifications`.

The broker that serves CreateTopics only writes the topic's znode; everything else begins here, when the watch fires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from understudy.controller import partition_state_machine, replica_state_machine
from understudy.controller.term import Term
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.eventlog.records import TopicsChanged
from understudy.foundation.operator_lines import some
from understudy.foundation.zk.kafka_zk_client import TopicAssignment

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_topic_change(term: Term) -> None:
    """Add the topics that have a new znode, and remove those whose znode is gone (TC-11).

    A topic whose znode was deleted by hand is removed from memory; its logs stay on the brokers as strays.
    """
    context = term.context
    listed = set(await term.zk.topics.names(watch=True))
    new, deleted = sorted(listed - context.all_topics), sorted(context.all_topics - listed)
    if not new and not deleted:
        return
    # Before they are added to memory: if this fails they are new again next time.
    found = await _with_topic_ids(term, await term.zk.topics.assignments(new, watch=True))
    for topic in deleted:
        context.remove_topic(topic)
    found = await _without_duplicate_ids(term, found)
    if not found and not deleted:
        return
    # `found` lacks topics that were deleted meanwhile or cannot be decoded; the latter are tried again.
    context.all_topics |= found.keys()
    term.events.append(TopicsChanged(new=tuple(found), deleted=tuple(deleted)))
    log.info(
        "topics changed",
        new_topics=some(found),
        deleted_topics=some(deleted),
        new_count=len(found),
        deleted_count=len(deleted),
    )
    _add_to_context(term, found)
    await on_new_partition_creation(term, [partition for topic in found.values() for partition in topic.partitions])


async def process_partition_modifications(term: Term, topic: str) -> None:
    """Create the partitions that were added to a topic's znode (TC-12). Other changes by hand are ignored, and
    overwritten later."""
    found = (await term.zk.topics.assignments([topic], watch=True)).get(topic)
    if found is None:
        return
    if topic not in term.context.all_topics:
        # It could not be decoded before and was repaired, or it was deleted and created again.
        await process_topic_change(term)
        return
    known = term.context.assignments_for_topic(topic)
    if term.context.is_topic_queued_for_deletion(topic):
        if not found.partitions.keys() <= known.keys():
            await _restore_assignment(term, topic, found)
        return
    # A partition that had no replicas before counts as new.
    added = {
        partition: wanted
        for partition, wanted in found.partitions.items()
        if partition not in known or (wanted.replicas and not known[partition].replicas)
    }
    if not added:
        return
    first = [partition.partition for partition in some(added)]
    log.info("new partitions to be added", topic=topic, new_partitions=first, partitions=len(added))
    for partition, assignment in added.items():
        term.context.update_partition_assignment(partition, assignment)
    await on_new_partition_creation(term, list(added))


async def _restore_assignment(term: Term, topic: str, found: TopicAssignment) -> None:
    """Remove added partitions from the znode of a topic that is being deleted: it gets back those that have znodes of
    their own."""
    context = term.context
    existing = set(await term.zk.topics.partition_znodes(topic))
    kept = {
        partition: context.partition_assignment(partition) for partition in found.partitions if partition in existing
    }
    log.warning("skipping new partitions of a topic that is being deleted", topic=topic, kept=len(kept))
    await term.points.reach("deletion.restore.before_write")
    restored = TopicAssignment(context.topic_ids.get(topic), kept)
    await term.zk.topics.overwrite_assignments({topic: restored}, context.epoch_zk_version)
    await term.points.reach("deletion.restore.after_write")


async def load_topics(term: Term, found: Mapping[str, TopicAssignment]) -> None:
    """Load names, ids and assignments of topics into memory at a takeover."""
    kept = await _without_duplicate_ids(term, await _with_topic_ids(term, found))
    term.context.all_topics = set(kept)
    _add_to_context(term, kept)


async def _with_topic_ids(term: Term, found: Mapping[str, TopicAssignment]) -> dict[str, TopicAssignment]:
    """Give an id to topics without one, if the protocol version has topic ids (FO-5c).

    An existing id is kept whatever the version: it must not be lost by a downgrade (KAFKA-12835).
    """
    given: dict[str, TopicId] = {}
    if term.settings.inter_broker_protocol_version.is_topic_ids_supported:
        given = {topic: term.new_topic_id() for topic, node in found.items() if node.topic_id is None}
    if given:
        await term.points.reach("topic_ids.before_write")
        await term.zk.topics.set_ids(given, term.context.epoch_zk_version)
        await term.points.reach("topic_ids.after_write")
    return {topic: node._replace(topic_id=given.get(topic, node.topic_id)) for topic, node in found.items()}


async def _without_duplicate_ids(term: Term, found: Mapping[str, TopicAssignment]) -> dict[str, TopicAssignment]:
    """Return `found` without topics that have the id of another topic: the oldest of them keeps it.

    Only a znode written by hand can have such an id. Kafka's event fails as a whole: all topics that were created
    together stay without leaders, and no broker can take over as controller while the znode exists.
    """
    bearers = grouped((node.topic_id, topic) for topic, node in found.items() if node.topic_id is not None)
    kept = dict(found)
    for topic_id, topics in bearers.items():
        owner = term.context.topic_names.get(topic_id)
        if owner is None:
            owner = topics[0] if len(topics) == 1 else await term.zk.topics.oldest(topics)
        for topic in topics:
            if topic != owner:
                log.error(
                    "topic left out",
                    topic=topic,
                    why=f"its id {topic_id} is that of {owner!r}: give it another, or none",
                )
                del kept[topic]
    return kept


def _add_to_context(term: Term, topics: Mapping[str, TopicAssignment]) -> None:
    context = term.context
    for topic, node in topics.items():
        if node.topic_id is not None:
            context.add_topic_id(topic, node.topic_id)
        for partition, assignment in node.partitions.items():
            context.update_partition_assignment(partition, assignment)
            if assignment.is_being_reassigned:
                context.partitions_being_reassigned.add(partition)


async def on_new_partition_creation(term: Term, partitions: Sequence[TopicPartition]) -> None:
    """Move partitions and their replicas to New, then to Online.

    Each replica is sent the LeaderAndIsr that brings its partition online, so its own step to Online sends nothing.
    """
    first = {str(partition): term.context.partition_assignment(partition).replicas for partition in some(partitions)}
    log.info("new partition creation callback", partitions=len(partitions), assignments=first)
    replicas = term.context.partitions_by_replica(partitions)
    await partition_state_machine.handle_state_changes(term, partitions, PartitionState.NEW)
    await replica_state_machine.handle_state_changes(term, replicas, ReplicaState.NEW)
    await partition_state_machine.handle_state_changes(term, partitions, PartitionState.ONLINE)
    await replica_state_machine.handle_state_changes(term, replicas, ReplicaState.ONLINE)
