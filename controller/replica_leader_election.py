"""Leader elections on request: preferred or unclean, by a client or by `/admin/preferred_replica_election`.

Mirrors `processReplicaLeaderElection` and `onReplicaElection`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import structlog

from understudy.controller import partition_state_machine
from understudy.controller.context import ControllerContext
from understudy.controller.events import ElectionTrigger, ElectionType, ReplicaLeaderElection
from understudy.controller.isr_change_notification import refresh_leadership
from understudy.controller.partition_state_machine import ElectionResults, Strategy
from understudy.controller.state_writes import Outcome
from understudy.controller.term import Term
from understudy.controller.transitions import PartitionState
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER, LeaderAndIsr
from understudy.foundation.operator_lines import some, with_a_line
from understudy.foundation.zk.client import Failure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")

_NOT_AVAILABLE = {
    ElectionType.PREFERRED: Errors.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}

_NO_STATE = (Failure.NO_NODE, Failure.BAD_ARGUMENTS)
"""Failures that mean that the state does not exist or cannot be decoded, so that no leader can be elected (PSM-9)."""


async def process_replica_leader_election(term: Term, event: ReplicaLeaderElection) -> None:
    """Elect leaders for the partitions that the request or the znode names, and respond."""
    by_znode = event.trigger is ElectionTrigger.ZOOKEEPER
    if by_znode:
        # This also arms the watch for its next creation.
        asked = await term.zk.preferred_elections.read(watch=True)
        if asked is None:
            return
    else:
        asked = event.partitions if event.partitions is not None else tuple(term.context.assignments)
    results: dict[TopicPartition, BrokerId | ApiError] = {}
    electable = []
    for partition in asked:
        if (refusal := refused_election(term.context, partition, event.election_type)) is None:
            electable.append(partition)
        else:
            results[partition] = refusal
    log.info(
        "starting replica leader election",
        election_type=event.election_type.name,
        trigger=event.trigger.value,
        some_partitions=some(map(str, electable)),
        partitions=len(electable),
    )
    elected = await on_replica_election(term, electable, event.election_type, event.trigger)
    results |= {partition: _result(outcome, event.election_type) for partition, outcome in elected.items()}
    if event.reply is not None:
        event.reply.resolve(results)


def refused_election(
    context: ControllerContext, partition: TopicPartition, election_type: ElectionType
) -> ApiError | None:
    """Return why this partition needs or gets no election; None if it is to be tried (PE-2).

    A partition that has never had a leader is answered like one whose election failed; Kafka throws an exception
    (BUG-12).
    """
    if partition not in context.assignments:
        return ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if context.is_topic_queued_for_deletion(partition.topic):
        return ApiError(Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    known = context.leadership.get(partition)
    if known is None:
        return ApiError(_NOT_AVAILABLE[election_type], f"Partition {partition} has never had a leader.")
    leader = known.leader_and_isr.leader
    replicas = context.partition_assignment(partition).replicas
    match election_type:
        case ElectionType.PREFERRED:
            needed = not replicas or leader != replicas[0]
        case ElectionType.UNCLEAN:
            needed = leader == NO_LEADER or not context.is_live_broker(leader)
    return None if needed else ApiError(Errors.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


async def on_replica_election(
    term: Term, partitions: Sequence[TopicPartition], election_type: ElectionType, trigger: ElectionTrigger
) -> ElectionResults:
    """Run the elections (PE-3). Only a client's request may elect a leader that is out of sync."""
    unclean = election_type is ElectionType.UNCLEAN and trigger is ElectionTrigger.ADMIN_CLIENT
    if election_type is ElectionType.PREFERRED:
        strategy = Strategy.PREFERRED
    else:
        strategy = Strategy.UNCLEAN if unclean else Strategy.OFFLINE
    await refresh_leadership(term, partitions)
    results = await partition_state_machine.handle_state_changes(term, partitions, PartitionState.ONLINE, strategy)
    for partition, result in with_a_line(log, results.items()):
        outcome = {"leader": result.leader} if isinstance(result, LeaderAndIsr) else {"why": result.why}
        log.info(
            "completed replica leader election", election_type=election_type.name, partition=str(partition), **outcome
        )
    if trigger is ElectionTrigger.ZOOKEEPER:
        await _delete_znode(term)
    return results


async def _delete_znode(term: Term) -> None:
    """Delete the znode whatever the results were, and queue its event again, so that its next creation is not missed
    (PE-6)."""
    await term.points.reach("preferred_election.before_write")
    await term.zk.preferred_elections.delete(term.context.epoch_zk_version)
    await term.points.reach("preferred_election.after_write")
    term.put(ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER))


def pending_preferred_elections(context: ControllerContext, asked: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that still need an election, of those that the znode names (FO-13)."""
    return [partition for partition in asked if refused_election(context, partition, ElectionType.PREFERRED) is None]


def _result(result: Outcome, election_type: ElectionType) -> BrokerId | ApiError:
    """Return the new leader, or the error for the client (PE-4)."""
    if isinstance(result, LeaderAndIsr):
        return result.leader
    if result.failure in (None, *_NO_STATE):
        return ApiError(_NOT_AVAILABLE[election_type], result.why)
    return ApiError(Errors.UNKNOWN_SERVER_ERROR, result.message)
