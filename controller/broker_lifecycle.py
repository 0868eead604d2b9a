"""Brokers start, change, fail, or lose a log directory. Mirrors `processBrokerChange` and its callbacks.

A broker's failure, in the order of `onBrokerFailure` and `onReplicasBecomeOffline`:

    1.  Forget that the broker was shutting down, and its offline log directories.
    2.  Move the partitions whose leader is offline to OfflinePartition.
    3.  Elect new leaders for them, and for all other partitions without one.
    4.  Move the broker's replicas to OfflineReplica: they leave the ISRs.
    5.  Mark the deletion of topics with a replica there as ineligible.
    6.  Send UpdateMetadata, if no partition has changed.

Leaders are elected before replicas leave ISRs, so that a partition that loses its leader is written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import structlog

from understudy.controller import features, partition_state_machine, replica_state_machine, topic_deletion
from understudy.controller.broker_changes import BrokerChanges, broker_changes
from understudy.controller.events import LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived
from understudy.controller.isr_change_notification import refresh_leadership
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.term import Term
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.records import BrokersChanged
from understudy.foundation.operator_lines import some
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionError, LeaderAndIsrResponse

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def process_broker_change(term: Term) -> None:
    """Compare the registered brokers with the context, and run the callbacks of new, bounced and failed brokers, in
    this order.

    A bounced broker has failed and started again. Channels are opened and closed first, so that the callbacks can send.
    """
    context = term.context
    registered = features.compatible_brokers(term, await term.zk.brokers.all(watch=True))
    epochs = {broker: found.epoch for broker, found in registered.items()}
    changes = broker_changes(context.live_broker_epochs, epochs)
    if changes.bounced and not term.rules.bounced_broker_is_noticed.holds_for(changes.bounced):
        changes = changes._replace(bounced=())
    if changes.is_empty:
        return
    record = BrokersChanged(new=changes.new, dead=changes.dead, bounced=changes.bounced, live=tuple(registered))
    term.events.append(record)
    log.info(
        "brokers changed",
        new_brokers=changes.new,
        deleted_brokers=changes.dead,
        bounced_brokers=changes.bounced,
        live_brokers=tuple(registered),
    )

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
    """Open channels to new brokers, close those to failed brokers, and renew those to bounced ones (BR-7)."""
    for broker in changes.new:
        term.channels.open(registered[broker])
    for broker in changes.bounced:
        term.channels.close(broker)
    for broker in changes.bounced:
        term.channels.open(registered[broker])
    for broker in changes.dead:
        term.channels.close(broker)


async def process_broker_modifications(term: Term, broker_id: BrokerId) -> None:
    """Send a broker's new endpoints to all brokers (BR-16).

    The controller's own channel keeps the old address until the broker is registered again (BUG-23).
    """
    registered = await term.zk.brokers.get(broker_id, watch=True)
    known = term.context.broker(broker_id)
    if registered is None or known is None:
        return
    if (registered.broker.endpoints, registered.broker.features) == (known.endpoints, known.features):
        return
    log.info("updated broker metadata", broker=broker_id, addresses=registered.broker.addresses)
    term.context.update_broker_metadata(registered.broker)
    await term.send_update_metadata(term.context.live_or_shutting_down_broker_ids)


async def process_log_dir_event_notification(term: Term) -> None:
    """Send LeaderAndIsr for all replicas of a broker one of whose log directories failed (LD-2).

    The notification does not name the replicas in the directory; the response to LeaderAndIsr does (SN-6).
    """
    notifications = await term.zk.log_dir_events.read()
    if not notifications:
        return
    asked = [broker for broker in term.context.live_or_shutting_down_broker_ids if broker in notifications.values()]
    log.info("handling log directory failure", brokers=asked)
    replicas = topic_deletion.startable_replicas(term.context, term.context.partitions_by_replica(only=asked))
    await replica_state_machine.handle_state_changes(term, replicas, ReplicaState.ONLINE)
    await term.points.reach("notifications.before_write")
    await term.zk.log_dir_events.delete(notifications, term.context.epoch_zk_version)
    await term.points.reach("notifications.after_write")


# ------------------------------------------------------------------ callbacks


async def on_broker_startup(term: Term, new: Sequence[BrokerId]) -> None:
    """Send the metadata to new brokers, start their replicas, and elect leaders if that is possible now (BR-12)."""
    context = term.context
    log.info("new broker startup callback", brokers=new)
    for broker in new:
        context.replicas_on_offline_dirs.pop(broker, None)
    others = [broker for broker in context.live_or_shutting_down_broker_ids if broker not in new]
    await term.send_update_metadata(others)
    # Before LeaderAndIsr: a follower rejects a leader that is not in its metadata cache.
    metadata_first = term.rules.metadata_goes_before_leaders.holds_for(f"start of {some(new)}")
    if metadata_first:
        await term.send_update_metadata(new, context.partitions_with_leaders())
    replicas = context.partitions_by_replica(only=new)
    startable = topic_deletion.startable_replicas(context, replicas)
    await replica_state_machine.handle_state_changes(term, startable, ReplicaState.ONLINE)
    if not metadata_first:
        await term.send_update_metadata(new, context.partitions_with_leaders())
    await partition_state_machine.trigger_online_state_change(term)
    await partition_reassignment.resume_for_brokers(term, new)
    hosted = {partition.topic for partitions in replicas.values() for partition in partitions}
    if queued := sorted(hosted & context.topics_to_be_deleted):
        await topic_deletion.resume_deletions_for_topics(term, queued)
    await term.zk.brokers.watch(new)


async def on_broker_failure(term: Term, dead: Sequence[BrokerId]) -> None:
    """Handle the failure of brokers, in the six steps above (BR-13). They have left the live brokers already."""
    context = term.context
    log.info("broker failure callback", brokers=dead)
    if leaving := [broker for broker in dead if broker in context.shutting_down_broker_ids]:
        log.info("removed from the shutting down brokers", brokers=leaving)
    for broker in dead:  # step 1
        context.replicas_on_offline_dirs.pop(broker, None)
        context.shutting_down_broker_ids.discard(broker)
    await on_replicas_become_offline(term, context.partitions_by_replica(only=dead))


async def on_replicas_become_offline(term: Term, replicas: Mapping[BrokerId, Sequence[TopicPartition]]) -> None:
    """Elect new leaders, then take the replicas out of the ISRs: steps 2 to 6 (BR-14)."""
    context = term.context
    staying = {broker: context.without_queued_topics(partitions) for broker, partitions in replicas.items()}
    remaining = {broker: partitions for broker, partitions in staying.items() if partitions}
    lost = context.partitions_with_offline_leader()
    await refresh_leadership(term, chain(lost, *remaining.values()))
    await partition_state_machine.handle_state_changes(term, lost, PartitionState.OFFLINE)  # step 2
    elections = await partition_state_machine.trigger_online_state_change(term)  # step 3
    await replica_state_machine.handle_state_changes(term, remaining, ReplicaState.OFFLINE)  # step 4
    await topic_deletion.fail_replica_deletion(term, replicas)  # step 5
    is_unchanged = not remaining and not any(isinstance(result, LeaderAndIsr) for result in elections.values())
    # The other brokers have not received yet that these brokers are offline.
    if is_unchanged and term.rules.broker_failure_updates_metadata.holds_for(f"failure of {some(list(replicas))}"):
        await term.send_update_metadata(context.live_or_shutting_down_broker_ids)  # step 6


# ------------------------------------------------------------------ responses of brokers


async def process_leader_and_isr_response(term: Term, event: LeaderAndIsrResponseReceived) -> None:
    """Mark replicas with KAFKA_STORAGE_ERROR as offline although their broker is alive; NONE removes the mark
    (SN-6)."""
    context, broker = term.context, event.broker_id
    if event.controller_epoch != context.epoch or event.broker_epoch != context.broker_epoch(broker):
        # Kafka also marks replicas by responses of an earlier registration.
        return
    if event.response.error_code:
        log.error("error in LeaderAndIsr response", error=error_name(event.response.error_code), broker=broker)
        return
    before = context.replicas_on_offline_dirs.get(broker, set())
    failed, healthy = _storage_errors(term, event.response, cleared=bool(before))
    # A replica may have been removed since the request was sent; in Kafka it stays marked.
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
    """Return the partitions whose log directory failed, and those without an error; unknown topic ids are skipped.

    Args:
        cleared: whether the second set is needed; it is empty otherwise.
    """
    failed: set[TopicPartition] = set()
    healthy: set[TopicPartition] = set()
    for topic, answer in _partition_answers(term, response):
        if answer.error_code == Errors.KAFKA_STORAGE_ERROR:
            failed.add(TopicPartition(topic, answer.partition_index))
        elif cleared and answer.error_code == Errors.NONE:
            healthy.add(TopicPartition(topic, answer.partition_index))
    return failed, healthy


def _partition_answers(term: Term, response: LeaderAndIsrResponse) -> Iterator[tuple[str, LeaderAndIsrPartitionError]]:
    """Yield the responses with their topic's name; below version 5 they carry it themselves."""
    for answer in response.partition_errors:
        yield answer.topic_name, answer
    for topic in response.topics:
        name = term.context.topic_names.get(topic.topic_id)
        if name is not None:
            yield from ((name, answer) for answer in topic.partition_errors)


def process_update_metadata_response(event: UpdateMetadataResponseReceived) -> None:
    """Log an error in the response (SN-7)."""
    if event.response.error_code:
        log.error(
            "error in UpdateMetadata response",
            error=error_name(event.response.error_code),
            broker=event.broker_id,
        )
