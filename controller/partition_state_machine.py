"""The partition state machine: transitions, first leaders and leader elections. Mirrors `PartitionStateMachine`.

    NonExistentPartition → NewPartition         state only
    NewPartition → OnlinePartition              first live replica leads, all live replicas are the ISR; written, then
                                                LeaderAndIsr (new) to the ISR and UpdateMetadata to all
    Online-, OfflinePartition → OnlinePartition a leader election; written, then LeaderAndIsr to the recipients of the
                                                election and UpdateMetadata to all
    New-, Online-, OfflinePartition → Offline   state only
    OfflinePartition → NonExistentPartition     state only

An election decides from the states in memory and reads only what conflicts (`understudy.controller.state_writes`, D15);
Kafka reads each state first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

import structlog

from understudy.controller.channels.request_batch import RequestBatch
from understudy.controller.leader_election import (
    LeaderElection,
    elect_for_controlled_shutdown,
    elect_for_offline_partition,
    elect_for_reassigned_partition,
    elect_preferred_replica,
)
from understudy.controller.state_writes import Outcome, StateChangeFailed, States, StateWrites, states_of
from understudy.controller.term import Term
from understudy.controller.transitions import VALID_PREVIOUS_PARTITION_STATES, PartitionState
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.records import (
    InvalidTransition,
    LeadershipNotWritten,
    PartitionsMoved,
    Refused,
    Transition,
)
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


class Strategy(Enum):
    """How a leader is chosen; values as in the record `LeadershipWritten`."""

    OFFLINE = "offline"
    UNCLEAN = "unclean"
    """As OFFLINE, and a replica out of sync may lead whatever the topic's config says."""
    REASSIGNMENT = "reassignment"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled-shutdown"

    @property
    def in_kafka(self) -> str:
        """The strategy's name in Kafka's messages, also in those that its tools print."""
        return _IN_KAFKA[self]


_IN_KAFKA = {
    Strategy.OFFLINE: "OfflinePartitionLeaderElectionStrategy(false)",
    Strategy.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
    Strategy.REASSIGNMENT: "ReassignPartitionLeaderElectionStrategy",
    Strategy.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    Strategy.CONTROLLED_SHUTDOWN: "ControlledShutdownPartitionLeaderElectionStrategy",
}


ElectionResults: TypeAlias = dict[TopicPartition, Outcome]


async def startup(term: Term) -> None:
    """Derive each partition's state from its leader, then try to bring all partitions online (FO-10)."""
    context, online = term.context, term.context.online_brokers()
    states, leadership = context.partition_states, context.leadership
    for partition in context.assignments:
        known = leadership.get(partition)
        if known is None:
            states[partition] = PartitionState.NEW
        elif known.leader_and_isr.leader in online.of(partition):
            states[partition] = PartitionState.ONLINE
        else:
            states[partition] = PartitionState.OFFLINE
    await trigger_online_state_change(term)


async def trigger_online_state_change(term: Term, topic: str | None = None) -> ElectionResults:
    """Try to bring every new or offline partition (of `topic`) online, except those queued for deletion (PSM-8)."""
    leaderless = term.context.partitions_in(PartitionState.NEW, PartitionState.OFFLINE, topic=topic)
    return await handle_state_changes(
        term, term.context.without_queued_topics(leaderless), PartitionState.ONLINE, Strategy.OFFLINE
    )


async def handle_state_changes(
    term: Term, partitions: Sequence[TopicPartition], target: PartitionState, strategy: Strategy = Strategy.OFFLINE
) -> ElectionResults:
    """Move `partitions` to `target`. Invalid transitions are recorded and skipped (PSM-2).

    Returns:
        The outcome of each leader election. A new partition that got its first leader is not among them (PSM-7).

    Raises:
        ControllerMoved, SessionLost: the role is lost.
        ZooKeeperFailure: UNKNOWN; memory cannot be trusted. Any other failure is the outcome of each partition.
    """
    valid = _valid(term, partitions, target)
    if not valid:
        return {}
    if target is not PartitionState.ONLINE:
        _move(term, valid, target)
        return {}
    batch = term.new_batch()
    results = await _bring_online(term, valid, strategy, batch)
    _move(term, list(states_of(results)), PartitionState.ONLINE)
    _record_failures(term, results, strategy.value)
    # Also after a failure: what was written before it must be sent.
    await term.flush(batch, "partition")
    return results


async def _bring_online(
    term: Term, partitions: Sequence[TopicPartition], strategy: Strategy, batch: RequestBatch
) -> ElectionResults:
    """Initialise the new partitions among these, and elect leaders for the others."""
    states = term.context.partition_states
    new = [partition for partition in partitions if states[partition] is PartitionState.NEW]
    led_before = [partition for partition in partitions if states[partition] is not PartitionState.NEW]
    if new:
        try:
            led_before += await _initialise_leader_and_isr(term, new, batch)
        except ZooKeeperFailure as failure:
            if failure.failure is Failure.UNKNOWN:
                raise
            log.error("error while initialising partitions", partitions=len(new), why=str(failure))
            return dict.fromkeys(partitions, StateChangeFailed(str(failure), failure.failure))
    return await _elect_leaders(term, led_before, strategy, batch)


# ------------------------------------------------------------------ the first leader


async def _initialise_leader_and_isr(
    term: Term, partitions: Sequence[TopicPartition], batch: RequestBatch
) -> list[TopicPartition]:
    """Create the states of new partitions (PSM-5).

    Returns partitions whose state existed in ZooKeeper already; they are Offline now and need an election. Kafka leaves
    such a partition New for ever (BUG-10): each attempt to create its state fails because it exists.
    """
    context, online = term.context, term.context.online_brokers()
    first: dict[TopicPartition, LeaderAndIsr] = {}
    failed: ElectionResults = {}
    for partition in partitions:
        alive = online.of(partition)
        live = tuple(replica for replica in context.partition_assignment(partition).replicas if replica in alive)
        if live:
            first[partition] = LeaderAndIsr(live[0], 0, live)
        else:
            failed[partition] = StateChangeFailed("no assigned replica is alive")
    online_now: list[TopicPartition] = []
    existing: list[TopicPartition] = []

    def accept(finished: Mapping[TopicPartition, LeaderAndIsr | Failure]) -> None:
        created: dict[TopicPartition, LeaderAndIsr] = {}
        for partition, result in finished.items():
            if isinstance(result, LeaderAndIsr):
                created[partition] = result
                batch.add_leader_and_isr(result.isr, partition, is_new=True)
            elif result is Failure.NODE_EXISTS:
                existing.append(partition)
            else:
                failed[partition] = StateChangeFailed("its state could not be created", result)
        term.accept(created, "initialise")
        online_now.extend(created)

    if first:
        await term.points.reach("partition.before_write")
        await term.zk.states.create(first, context.epoch, context.epoch_zk_version, accept)
        await term.points.reach("partition.after_write")
    _move(term, online_now, PartitionState.ONLINE)
    _record_failures(term, failed, "initialise")
    return await _load_existing_leadership(term, existing)


async def _load_existing_leadership(term: Term, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """Read the states of partitions that another controller has initialised, and move them to OfflinePartition."""
    if not partitions:
        return []
    read = await term.zk.states.read(partitions)
    found = {partition: state for partition, state in read.items() if not isinstance(state, Failure)}
    term.context.put_leadership(found)
    _move(term, list(found), PartitionState.OFFLINE)
    return list(found)


# ------------------------------------------------------------------ a leader election


async def _elect_leaders(
    term: Term, partitions: Sequence[TopicPartition], strategy: Strategy, batch: RequestBatch
) -> ElectionResults:
    """Elect a leader for each partition, write the new state, and send it to the recipients of the election."""
    writes = StateWrites(term, "partition", why=strategy.value)
    elected: dict[TopicPartition, LeaderElection] = {}
    with writes.failures_as_outcomes(partitions):
        while states := await writes.undecided():
            unclean_topics = await _unclean_topics(term, states) if strategy is Strategy.OFFLINE else frozenset()
            elections = _choose(term, states, strategy, unclean_topics)
            why = f"under strategy {strategy.in_kafka}"
            writes.fail(
                {
                    partition: StateChangeFailed(f"Failed to elect leader for partition {partition} {why}")
                    for partition in states
                    if partition not in elections
                }
            )
            elected |= elections
            await writes.write(
                {partition: election.leader_and_isr for partition, election in elections.items()},
                unclean={partition for partition, election in elections.items() if election.unclean},
            )
    for partition in writes.accepted:
        batch.add_leader_and_isr(_recipients(term, partition, elected[partition], strategy), partition)
    return writes.outcomes


def _choose(
    term: Term, states: States, strategy: Strategy, unclean_topics: Collection[str]
) -> dict[TopicPartition, LeaderElection]:
    """Elect a leader for each state, if the strategy finds one."""
    context = term.context
    leaving_too = strategy is Strategy.CONTROLLED_SHUTDOWN
    recovery = term.settings.inter_broker_protocol_version.is_leader_recovery_supported
    online = context.online_brokers(include_shutting_down_brokers=leaving_too)
    leaving = frozenset(context.shutting_down_broker_ids)
    elections = {}
    for partition, state in states.items():
        assignment, alive = context.partition_assignment(partition), online.of(partition)
        match strategy:
            case Strategy.OFFLINE | Strategy.UNCLEAN:
                allowed = strategy is Strategy.UNCLEAN or partition.topic in unclean_topics
                if not allowed and alive.isdisjoint(state.isr) and not alive.isdisjoint(assignment.replicas):
                    allowed = not term.rules.unclean_leader_needs_permission.holds_for(partition)
                election = elect_for_offline_partition(
                    state, assignment, alive, unclean_allowed=allowed, leader_recovery_supported=recovery
                )
            case Strategy.REASSIGNMENT:
                election = elect_for_reassigned_partition(state, assignment, alive)
            case Strategy.PREFERRED:
                election = elect_preferred_replica(state, assignment, alive)
            case Strategy.CONTROLLED_SHUTDOWN:
                election = elect_for_controlled_shutdown(state, assignment, alive, leaving)
        if election is not None:
            elections[partition] = election
    return elections


def _recipients(
    term: Term, partition: TopicPartition, election: LeaderElection, strategy: Strategy
) -> Sequence[BrokerId]:
    leaving = term.context.shutting_down_broker_ids
    if strategy is Strategy.CONTROLLED_SHUTDOWN and not term.rules.leaving_broker_receives_new_leader.holds_for(
        partition
    ):
        return [broker for broker in election.recipients if broker not in leaving]
    return election.recipients


async def _unclean_topics(term: Term, states: States) -> frozenset[str]:
    """Return the topics that may elect a leader out of sync, of those with a partition whose ISR is offline (PSM-17).

    A topic whose config cannot be read is not among them.
    """
    online = term.context.online_brokers()
    lost = sorted({p.topic for p, state in states.items() if online.of(p).isdisjoint(state.isr)})
    if not lost:
        return frozenset()
    default = str(term.settings.unclean_leader_election_enabled())
    configs = await term.zk.configs.of_topics(lost)
    return frozenset(
        topic
        for topic, config in configs.items()
        if config.get("unclean.leader.election.enable", default).strip().lower() == "true"
    )


# ------------------------------------------------------------------ states and records


def _valid(term: Term, partitions: Sequence[TopicPartition], target: PartitionState) -> list[TopicPartition]:
    """Return the partitions that may move to `target`; record the others."""
    states, legal = term.context.partition_states, VALID_PREVIOUS_PARTITION_STATES[target]
    valid, invalid = [], []
    for partition in partitions:
        source = states.setdefault(partition, PartitionState.NON_EXISTENT)
        if source in legal:
            valid.append(partition)
        else:
            invalid.append((partition, "invalid state change"))
            term.events.append(
                InvalidTransition(
                    target=target.value, source=source.value, topic=partition.topic, partition=partition.partition
                )
            )
    term.state_changes.partitions_failed(invalid, target)
    return valid


def _move(term: Term, partitions: Sequence[TopicPartition], target: PartitionState) -> None:
    """Set the states to `target`, and record those that change."""
    term.state_changes.partitions_enter(partitions, target)
    states = term.context.partition_states
    moved = tuple(
        [
            Transition(*partition, -1, source.value)
            for partition in partitions
            if (source := states[partition]) is not target
        ]
    )
    if not moved:
        return
    states.update(dict.fromkeys(partitions, target))
    term.events.append(PartitionsMoved(target=target.value, partitions=moved))


def _record_failures(term: Term, results: ElectionResults, why: str) -> None:
    refused = tuple(
        Refused(partition.topic, partition.partition, result.label)
        for partition, result in results.items()
        if isinstance(result, StateChangeFailed)
    )
    if refused:
        failed = ((p, result.why) for p, result in results.items() if isinstance(result, StateChangeFailed))
        term.state_changes.partitions_failed(failed, PartitionState.ONLINE)
        term.events.append(LeadershipNotWritten(why=why, partitions=refused))
        log.error(
            "failed to elect leaders",
            why=why,
            partitions=len(refused),
            first_partition=f"{refused[0].topic}-{refused[0].partition}",
        )
