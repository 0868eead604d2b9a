"""The takeover of a newly elected controller, step by step. Mirrors `onControllerFailover` and
`initializeControllerContext`.

    1.  Set up feature versioning; wait until this broker's cache has read it.
    2.  Arm the watches on the znodes that ask for elections and reassignments.
    3.  Delete the notifications of log directories and ISR changes: what they announce is read below.
    4.  Load the context: brokers, topics, assignments, partition states; open a channel to each broker.
    5.  Load the topics queued for deletion.
    6.  Send UpdateMetadata with the live brokers to all brokers.
    7.  Start the replica state machine: send LeaderAndIsr to replicas of live brokers, take the others out of ISRs.
    8.  Start the partition state machine: elect leaders for the partitions without a live one.
    9.  Resume reassignments.
    10. Resume topic deletions.
    11. Run the preferred leader elections that `/admin/preferred_replica_election` asks for.
    12. Schedule the check for leader imbalance.

The order matters. Each read arms its watch, so that no change in between is missed. A broker must know the live brokers
before a LeaderAndIsr names one of them as leader, so step 6 comes before step 7 (KAFKA-4443). Step 7 comes before step
8, so that a partition whose leader is offline is first written without it, and then with a new leader.
"""

from __future__ import annotations

import structlog

from understudy.controller import (
    auto_rebalance,
    features,
    partition_state_machine,
    replica_state_machine,
    topic_deletion,
)
from understudy.controller.events import ElectionTrigger, ElectionType
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.replica_leader_election import on_replica_election, pending_preferred_elections
from understudy.controller.term import Term, leaderships
from understudy.controller.topic_changes import load_topics
from understudy.foundation.eventlog.records import ContextLoaded, ControllerReady
from understudy.foundation.operator_lines import some
from understudy.foundation.zk.client import Failure

FIRST_REBALANCE_MS = 5_000
"""Time after a takeover at which the leader imbalance is first checked, in milliseconds (AR-1)."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def on_controller_failover(term: Term) -> None:
    """Take over, in the twelve steps above.

    An exception reaches the caller, which resigns: a controller that could not take over completely must not remain
    controller (EL-8).
    """
    started_at_ms = term.clock.monotonic_ms()
    zk, context = term.zk, term.context
    await term.points.reach("failover.after_epoch")
    await features.setup_feature_versioning(term)  # step 1
    log.info("registering handlers")
    await zk.preferred_elections.read(watch=True)  # step 2
    await zk.reassignments.watch()
    await _delete_notifications(term)  # step 3
    await initialize_controller_context(term)  # step 4
    await topic_deletion.initialise(term)  # step 5
    metadata_first = term.rules.metadata_goes_before_leaders.holds_for(f"takeover of epoch {context.epoch}")
    if metadata_first:
        await _send_live_brokers(term)  # step 6
    await replica_state_machine.startup(term)  # step 7
    await partition_state_machine.startup(term)  # step 8
    if not metadata_first:
        await _send_live_brokers(term)
    _record_ready(term, started_at_ms)
    await partition_reassignment.resume(term)  # step 9
    await topic_deletion.resume_deletions(term)  # step 10
    await _resume_preferred_elections(term)  # step 11
    log.info("starting the controller scheduler")
    auto_rebalance.schedule(term, delay_ms=FIRST_REBALANCE_MS)  # step 12


async def initialize_controller_context(term: Term) -> None:
    """Load brokers, topics, assignments and partition states, and open the channels: step 4 (FO-5)."""
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
    """Log the loaded context (LG-2)."""
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
    """Read all partition states. A partition whose state is missing or cannot be decoded has no leader; it becomes
    NewPartition."""
    states = await term.zk.states.read(list(term.context.assignments))
    known = {partition: state for partition, state in states.items() if not isinstance(state, Failure)}
    term.context.put_leadership(known)


async def _delete_notifications(term: Term) -> None:
    """Delete the notifications; what they announce is read afterwards: step 3 (FO-4)."""
    log.info("deleting log dir event and isr change notifications")
    await term.points.reach("notifications.before_write")
    await term.zk.log_dir_events.delete_all(term.context.epoch_zk_version)
    await term.zk.isr_changes.delete_all(term.context.epoch_zk_version)
    await term.points.reach("notifications.after_write")


async def _send_live_brokers(term: Term) -> None:
    """Send UpdateMetadata with the live brokers to all brokers: step 6 (FO-8)."""
    brokers = term.context.live_or_shutting_down_broker_ids
    log.info("sending update metadata request", brokers=brokers)
    await term.send_update_metadata(brokers)


async def _resume_preferred_elections(term: Term) -> None:
    """Run the elections that the znode asks for, and delete it, also if it does not exist, as in Kafka: step 11
    (FO-13)."""
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
    log.info("ready to serve as the new controller", partitions=len(context.assignments))
