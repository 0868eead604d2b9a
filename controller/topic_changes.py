"""Topics appear and vanish, partitions are added: what the znodes of topics tell. Mirrors `processTopicChange` and its
kin.

The broker that serves CreateTopics only writes the topic's znode; everything else begins here, at the watch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from controller import partition_state_machine, replica_state_machine
from controller.term import Term
from controller.transitions import PartitionState, ReplicaState
from foundation.cluster.identifiers import TopicId, TopicPartition
from foundation.eventlog.records import TopicsChanged
from foundation.operator_lines import some
from foundation.zk.kafka_zk_client import TopicAssignment

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_topic_change(term: Term) -> None:
    """TC-11. A topic deleted by hand is forgotten; its logs stay on the brokers as strays."""
    context = term.context
    listed = set(await term.zk.topics.names(watch=True))
    new, deleted = sorted(listed - context.all_topics), sorted(context.all_topics - listed)
    if not new and not deleted:
        return
    # Before memory knows of them: where it fails they are as new the next time.
    found = await _with_topic_ids(term, await term.zk.topics.assignments(new, watch=True))
    for topic in deleted:
        context.remove_topic(topic)
    found = await _with_ids_of_their_own(term, found)
    if not found and not deleted:
        return
    # A topic that vanished between list and read is not there; one that cannot be read may be tried again.
    context.all_topics |= found.keys()
    term.events.append(TopicsChanged(new=tuple(found), deleted=tuple(deleted)))
    log.info("topics changed", new=some(found), deleted=some(deleted), new_count=len(found), deleted_count=len(deleted))
    _remember(term, found)
    await on_new_partition_creation(term, [partition for topic in found.values() for partition in topic.partitions])


async def process_partition_modifications(term: Term, topic: str) -> None:
    """TC-12: added partitions are created. Other edits of the znode are ignored, and written over later."""
    found = (await term.zk.topics.assignments([topic], watch=True)).get(topic)
    if found is None:
        return
    if topic not in term.context.all_topics:
        # It could not be read when it appeared, and somebody has repaired it; or it is a successor of the same name.
        await process_topic_change(term)
        return
    known = term.context.assignments_for_topic(topic)
    if term.context.is_topic_queued_for_deletion(topic):
        if not found.partitions.keys() <= known.keys():
            await _restore_assignment(term, topic, found)
        return
    # A partition that was made without replicas is as good as new when somebody gives it some.
    added = {
        partition: wanted
        for partition, wanted in found.partitions.items()
        if partition not in known or (wanted.replicas and not known[partition].replicas)
    }
    if not added:
        return
    first = [partition.partition for partition in some(added)]
    log.info("new partitions to be added", topic=topic, partitions=first, count=len(added))
    for partition, assignment in added.items():
        term.context.update_partition_assignment(partition, assignment)
    await on_new_partition_creation(term, list(added))


async def _restore_assignment(term: Term, topic: str, found: TopicAssignment) -> None:
    """A topic that shall be deleted does not grow: its znode gets back the partitions that have znodes of their own."""
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
    """Names, ids and assignments into memory, at a takeover."""
    kept = await _with_ids_of_their_own(term, await _with_topic_ids(term, found))
    term.context.all_topics = set(kept)
    _remember(term, kept)


async def _with_topic_ids(term: Term, found: Mapping[str, TopicAssignment]) -> dict[str, TopicAssignment]:
    """FO-5c: a topic made by hand gets an id, where the protocol has any.

    An id that is there is kept whatever the protocol: after a downgrade it must not be lost (KAFKA-12835).
    """
    given: dict[str, TopicId] = {}
    if term.settings.inter_broker_protocol_version.is_topic_ids_supported:
        given = {topic: term.new_topic_id() for topic, node in found.items() if node.topic_id is None}
    if given:
        await term.points.reach("topic_ids.before_write")
        await term.zk.topics.set_ids(given, term.context.epoch_zk_version)
        await term.points.reach("topic_ids.after_write")
    return {topic: node._replace(topic_id=given.get(topic, node.topic_id)) for topic, node in found.items()}


async def _with_ids_of_their_own(term: Term, found: Mapping[str, TopicAssignment]) -> dict[str, TopicAssignment]:
    """Without topics that bear the id of another, which only somebody's hand can give them: the oldest of them owns it.

    Kafka refuses the event as a whole: all topics that came with such a one stay without leaders, and nobody can take
    over any more while its znode is there.
    """
    bearers: dict[TopicId, list[str]] = {}
    for topic, node in found.items():
        if node.topic_id is not None:
            bearers.setdefault(node.topic_id, []).append(topic)
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


def _remember(term: Term, topics: Mapping[str, TopicAssignment]) -> None:
    context = term.context
    for topic, node in topics.items():
        if node.topic_id is not None:
            context.add_topic_id(topic, node.topic_id)
        for partition, assignment in node.partitions.items():
            context.update_partition_assignment(partition, assignment)
            if assignment.is_being_reassigned:
                context.partitions_being_reassigned.add(partition)


async def on_new_partition_creation(term: Term, partitions: Sequence[TopicPartition]) -> None:
    """New, then online; each replica heard of itself in the LeaderAndIsr that brought its partition online."""
    told = {str(partition): term.context.partition_assignment(partition).replicas for partition in some(partitions)}
    log.info("new partition creation callback", partitions=len(partitions), assignments=told)
    replicas = term.context.partitions_by_replica(partitions)
    await partition_state_machine.handle_state_changes(term, partitions, PartitionState.NEW)
    await replica_state_machine.handle_state_changes(term, replicas, ReplicaState.NEW)
    await partition_state_machine.handle_state_changes(term, partitions, PartitionState.ONLINE)
    await replica_state_machine.handle_state_changes(term, replicas, ReplicaState.ONLINE)
