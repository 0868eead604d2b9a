"""Becoming controller, step by step. Mirrors `onControllerFailover` and `initializeControllerContext`.

The order is the point. What changes while we read must not be missed, so each read arms its watch. Brokers must know
who is alive before they are told whom to follow, so UpdateMetadata goes before the state machines start (KAFKA-4443).
Replicas come before partitions, so a partition of a dead leader is first written without it and then gets a new one.
"""

from __future__ import annotations

import structlog

from controller import auto_rebalance, features, partition_state_machine, replica_state_machine, topic_deletion
from controller.events import ElectionTrigger, ElectionType
from controller.reassignment import partition_reassignment
from controller.replica_leader_election import on_replica_election, pending_preferred_elections
from controller.term import Term, leaderships
from controller.topic_changes import load_topics
from foundation.eventlog.records import ContextLoaded, ControllerReady
from foundation.operator_lines import some
from foundation.zk.client import Failure

FIRST_REBALANCE_MS = 5_000
"""After a takeover leaderships are looked at sooner than later (AR-1)."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def on_controller_failover(term: Term) -> None:
    """Raises whatever goes wrong: a controller that could not take over completely must not stay one (EL-8)."""
    started_at_ms = term.clock.monotonic_ms()
    zk, context = term.zk, term.context
    await term.points.reach("failover.after_epoch")
    await features.setup_feature_versioning(term)
    log.info("registering handlers", epoch=context.epoch)
    await zk.preferred_elections.read(watch=True)
    await zk.reassignments.watch()
    await _delete_notifications(term)
    await initialize_controller_context(term)
    await topic_deletion.initialise(term)
    log.info("sending update metadata request", brokers=context.live_or_shutting_down_broker_ids)
    await term.send_update_metadata(context.live_or_shutting_down_broker_ids)
    await replica_state_machine.startup(term)
    await partition_state_machine.startup(term)
    _record_ready(term, started_at_ms)
    await partition_reassignment.resume(term)
    await topic_deletion.resume_deletions(term)
    await _resume_preferred_elections(term)
    log.info("starting the controller scheduler")
    auto_rebalance.schedule(term, delay_ms=FIRST_REBALANCE_MS)


async def initialize_controller_context(term: Term) -> None:
    """FO-5: brokers, topics, assignments, states, and a channel to every broker."""
    started_at_ms = term.clock.monotonic_ms()
    zk, context = term.zk, term.context
    log.info("initializing controller context")
    brokers = features.compatible_brokers(term, await zk.brokers.all(watch=True))
    context.add_live_brokers(brokers)
    topics = await zk.topics.assignments(await zk.topics.names(watch=True), watch=True)
    await load_topics(term, topics)
    await zk.brokers.watch(brokers)
    await _load_leadership(term)
    for registered in brokers.values():
        term.channels.open(registered)
    record = ContextLoaded(
        epoch=context.epoch,
        live_brokers=tuple(context.live_broker_epochs.items()),
        partitions=leaderships(context.leadership),
        took_ms=round(term.clock.monotonic_ms() - started_at_ms, 3),
    )
    term.events.append(record)
    _log_initialized(term)


def _log_initialized(term: Term) -> None:
    """LG-2."""
    context = term.context
    log.info("initialized broker epochs cache", broker_epochs=context.live_broker_epochs)
    log.info(
        "initialized controller context",
        live_brokers=context.live_or_shutting_down_broker_ids,
        shutting_down_brokers=sorted(context.shutting_down_broker_ids),
        topics=some(sorted(context.all_topics)),
        topic_count=len(context.all_topics),
        partitions=len(context.assignments),
    )


async def _load_leadership(term: Term) -> None:
    """A partition whose state is missing or cannot be decoded has no leadership; it becomes New."""
    states = await term.zk.states.read(list(term.context.assignments))
    known = {partition: state for partition, state in states.items() if not isinstance(state, Failure)}
    term.context.put_leadership(known)


async def _delete_notifications(term: Term) -> None:
    """FO-4: what they announce is read afresh anyway."""
    log.info("deleting log dir event and isr change notifications")
    await term.points.reach("notifications.before_write")
    await term.zk.log_dir_events.delete_all(term.context.epoch_zk_version)
    await term.zk.isr_changes.delete_all(term.context.epoch_zk_version)
    await term.points.reach("notifications.after_write")


async def _resume_preferred_elections(term: Term) -> None:
    """FO-13. The znode is deleted whether or not there is one; it is nearly always not there."""
    asked = await term.zk.preferred_elections.read() or ()
    pending = pending_preferred_elections(term.context, asked)
    await on_replica_election(term, pending, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)


def _record_ready(term: Term, started_at_ms: float) -> None:
    context = term.context
    record = ControllerReady(
        epoch=context.epoch,
        brokers=context.live_or_shutting_down_broker_ids,
        topics=len(context.all_topics),
        partitions=len(context.assignments),
        took_ms=round(term.clock.monotonic_ms() - started_at_ms, 3),
    )
    term.events.append(record)
    log.info("ready to serve as the new controller", epoch=context.epoch, partitions=len(context.assignments))
