"""A broker appears, changes, dies, or loses a disk. Mirrors `processBrokerChange` and the callbacks around it.

Channels are opened and closed first, so that whatever a procedure sends finds its way; then come the new, the bounced
(a failure and a startup in one) and the dead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import structlog

from controller import features, partition_state_machine, replica_state_machine, topic_deletion
from controller.broker_changes import BrokerChanges, broker_changes
from controller.events import LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived
from controller.isr_change_notification import catch_up
from controller.reassignment import partition_reassignment
from controller.term import Term
from controller.transitions import PartitionState, ReplicaState
from foundation.cluster.broker import BrokerAndEpoch
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderAndIsr
from foundation.eventlog.records import BrokersChanged
from foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrResponse

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_broker_change(term: Term) -> None:
    context = term.context
    registered = features.compatible_brokers(term, await term.zk.brokers.all(watch=True))
    epochs = {broker: found.epoch for broker, found in registered.items()}
    changes = broker_changes(context.live_broker_epochs, epochs)
    if changes.is_empty:
        return
    record = BrokersChanged(new=changes.new, dead=changes.dead, bounced=changes.bounced, live=tuple(registered))
    term.events.append(record)
    log.info("brokers changed", new=changes.new, deleted=changes.dead, bounced=changes.bounced, live=tuple(registered))

    _update_channels(term, changes, registered)
    if changes.new:
        context.add_live_brokers({broker: registered[broker] for broker in changes.new})
        await on_broker_startup(term, changes.new)
    if changes.bounced:
        context.remove_live_brokers(changes.bounced)
        await on_broker_failure(term, changes.bounced)
        context.add_live_brokers({broker: registered[broker] for broker in changes.bounced})
        await on_broker_startup(term, changes.bounced)
    if changes.dead:
        context.remove_live_brokers(changes.dead)
        await on_broker_failure(term, changes.dead)
    log.info("updated broker epochs cache", broker_epochs=context.live_broker_epochs)


def _update_channels(term: Term, changes: BrokerChanges, registered: Mapping[BrokerId, BrokerAndEpoch]) -> None:
    """BR-7."""
    for broker in changes.new:
        term.channels.open(registered[broker])
    for broker in changes.bounced:
        term.channels.close(broker)
    for broker in changes.bounced:
        term.channels.open(registered[broker])
    for broker in changes.dead:
        term.channels.close(broker)


async def process_broker_modifications(term: Term, broker_id: BrokerId) -> None:
    """BR-16: tell everybody the new addresses. Requests of ours still go to the old one until the broker bounces
    (BUG-23)."""
    registered = await term.zk.brokers.get(broker_id, watch=True)
    known = term.context.broker(broker_id)
    if registered is None or known is None:
        return
    if (registered.broker.endpoints, registered.broker.features) == (known.endpoints, known.features):
        return
    log.info("updated broker metadata", broker=broker_id, endpoints=registered.broker.endpoints)
    term.context.update_broker_metadata(registered.broker)
    await term.send_update_metadata(term.context.live_or_shutting_down_broker_ids)


async def process_log_dir_event_notification(term: Term) -> None:
    """LD-2: a broker says that a directory failed, but not what was in it. It is asked by a LeaderAndIsr that repeats
    where all its replicas stand, and its answer tells those that are gone (SN-6)."""
    notifications = await term.zk.log_dir_events.read()
    if not notifications:
        return
    asked = [broker for broker in term.context.live_or_shutting_down_broker_ids if broker in notifications.values()]
    log.info("handling log directory failure", brokers=asked)
    replicas = topic_deletion.that_may_start(term.context, term.context.partitions_by_replica(only=asked))
    await replica_state_machine.handle_state_changes(term, replicas, ReplicaState.ONLINE)
    await term.points.reach("notifications.before_write")
    await term.zk.log_dir_events.delete(notifications, term.context.epoch_zk_version)
    await term.points.reach("notifications.after_write")


# ------------------------------------------------------------------ callbacks


async def on_broker_startup(term: Term, new: Sequence[BrokerId]) -> None:
    """BR-12: introduce the new brokers to the others and the cluster to them, start their replicas, elect what can
    be."""
    context = term.context
    log.info("new broker startup callback", brokers=new)
    for broker in new:
        context.replicas_on_offline_dirs.pop(broker, None)
    others = [broker for broker in context.live_or_shutting_down_broker_ids if broker not in new]
    await term.send_update_metadata(others)
    # Everything it needs to know, in front of the LeaderAndIsr: a follower refuses a leader it has not heard of.
    await term.send_update_metadata(new, context.partitions_with_leaders())
    replicas = context.partitions_by_replica(only=new)
    startable = topic_deletion.that_may_start(context, replicas)
    await replica_state_machine.handle_state_changes(term, startable, ReplicaState.ONLINE)
    await partition_state_machine.trigger_online_state_change(term)
    await partition_reassignment.resume_for_brokers(term, new)
    hosted = {partition.topic for partitions in replicas.values() for partition in partitions}
    if queued := sorted(hosted & context.topics_to_be_deleted):
        await topic_deletion.resume_deletions_for_topics(term, queued)
    await term.zk.brokers.watch(new)


async def on_broker_failure(term: Term, dead: Sequence[BrokerId]) -> None:
    """BR-13. They have left the live brokers already."""
    context = term.context
    log.info("broker failure callback", brokers=dead)
    if leaving := [broker for broker in dead if broker in context.shutting_down_broker_ids]:
        log.info("removed from the shutting down brokers", brokers=leaving)
    for broker in dead:
        context.replicas_on_offline_dirs.pop(broker, None)
        context.shutting_down_broker_ids.discard(broker)
    await on_replicas_become_offline(term, context.partitions_by_replica(only=dead))


async def on_replicas_become_offline(term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]) -> None:
    """BR-14: new leaders for whatever has lost its own, then the replicas leave the ISRs.

    In this order a partition that loses its leader is written once, with leader and ISR together.
    """
    context = term.context
    staying = {broker: context.without_queued_topics(partitions) for broker, partitions in replicas.items()}
    remaining = {broker: partitions for broker, partitions in staying.items() if partitions}
    lost = context.partitions_with_offline_leader()
    await catch_up(term, chain(lost, *remaining.values()))
    await partition_state_machine.handle_state_changes(term, lost, PartitionState.OFFLINE)
    elections = await partition_state_machine.trigger_online_state_change(term)
    await replica_state_machine.handle_state_changes(term, remaining, ReplicaState.OFFLINE)
    await topic_deletion.fail_replica_deletion(term, replicas)
    if not remaining and not any(isinstance(result, LeaderAndIsr) for result in elections.values()):
        # No partition changed, so nobody has heard yet that these brokers are gone (KAFKA-13225).
        await term.send_update_metadata(context.live_or_shutting_down_broker_ids)


# ------------------------------------------------------------------ what brokers answer


async def process_leader_and_isr_response(term: Term, event: LeaderAndIsrResponseReceived) -> None:
    """SN-6: a replica that answers KAFKA_STORAGE_ERROR is offline though its broker lives; one that answers NONE is
    not."""
    context, broker = term.context, event.broker_id
    if event.controller_epoch != context.epoch or event.broker_epoch != context.broker_epoch(broker):
        # Kafka would mark replicas of a broker's new life by what its old one answered.
        return
    if event.response.error_code:
        log.error("error in LeaderAndIsr response", error=event.response.error_code, broker=broker)
        return
    before = context.replicas_on_offline_dirs.get(broker, set())
    failed, healthy = _storage_errors(term, event.response, cleared=bool(before))
    # A replica may be gone by now, with its topic or because its move was cancelled; in Kafka its mark stays.
    failed = {partition for partition in failed if broker in context.partition_assignment(partition).replicas}
    if not failed and not before:
        return
    context.replicas_on_offline_dirs[broker] = (before - healthy) | failed
    new = sorted(failed - before)
    if new:
        log.info("mark replicas as offline", broker=broker, partitions=len(new))
        await on_replicas_become_offline(term, {broker: new})


def _storage_errors(
    term: Term, response: LeaderAndIsrResponse, *, cleared: bool
) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """Partitions whose directory failed and, if anybody wants to know, those that are well; unknown topic ids are
    skipped."""
    failed: set[TopicPartition] = set()
    healthy: set[TopicPartition] = set()
    for topic, answer in _partition_answers(term, response):
        if answer.error_code == Errors.KAFKA_STORAGE_ERROR:
            failed.add(TopicPartition(topic, answer.partition_index))
        elif cleared and answer.error_code == Errors.NONE:
            healthy.add(TopicPartition(topic, answer.partition_index))
    return failed, healthy


def _partition_answers(term: Term, response: LeaderAndIsrResponse) -> Iterator[tuple[str, LeaderAndIsrPartitionError]]:
    """With the topic's name, which answers below version 5 carry themselves."""
    for answer in response.partition_errors:
        yield answer.topic_name, answer
    for topic in response.topics:
        name = term.context.topic_names.get(topic.topic_id)
        if name is not None:
            yield from ((name, answer) for answer in topic.partition_errors)


def process_update_metadata_response(event: UpdateMetadataResponseReceived) -> None:
    """SN-7."""
    if event.response.error_code:
        log.error("error in UpdateMetadata response", error=event.response.error_code, broker=event.broker_id)
