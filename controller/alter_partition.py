"""A leader proposes a new ISR; the controller decides on it and writes it (KIP-497). Mirrors `processAlterPartition`.

The decision on one partition is the function `verdict`. Its checks are in Kafka's order, which clients can observe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import structlog
from msgspec.structs import replace

from understudy.controller.context import ControllerContext
from understudy.controller.events import AlterPartitionReceived
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.state_writes import StateWrites
from understudy.controller.term import Term
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderRecoveryState
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.operator_lines import with_a_line
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from understudy.foundation.zk.client import Failure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")

_Outcome: TypeAlias = LeaderAndIsr | Errors


class Accept(NamedTuple):
    """The proposal is to be written."""


class AlreadySo(NamedTuple):
    """The proposal equals the current state: the leader did not receive the response to its first request
    (KAFKA-14144)."""


Verdict: TypeAlias = Accept | AlreadySo | Errors

_INELIGIBLE = (Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED)
"""Errors that refuse because a proposed member is dead or shutting down."""

_STALE_EPOCH = (Errors.NOT_CONTROLLER, Errors.FENCED_LEADER_EPOCH, Errors.INVALID_UPDATE_VERSION)
"""Errors that refuse because the leader epoch or the partition epoch is not the current one."""


async def process_alter_partition(term: Term, event: AlterPartitionReceived) -> None:
    """Decide on each proposal of the request, write the accepted ones, and respond with the resulting states."""
    request, version, context = event.request, event.version, term.context
    _validate_broker(term, request)
    proposals, unknown_topics = _proposals(context, request, version)
    outcomes: dict[TopicPartition, _Outcome] = {}
    accepted: dict[TopicPartition, LeaderAndIsr] = {}
    for partition, proposed in proposals.items():
        match _decide(term, partition, proposed, version):
            case Accept():
                accepted[partition] = proposed
            case AlreadySo():
                outcomes[partition] = context.leadership[partition].leader_and_isr
            case Errors() as error:
                _log_rejected(term, partition, proposed, error)
                outcomes[partition] = error
    outcomes |= await _write(term, accepted)
    # Also for the rejected partitions: their leaders may have missed an earlier UpdateMetadata.
    await term.send_update_metadata(context.live_or_shutting_down_broker_ids, proposals)
    event.reply.resolve(AlterPartitionResponse(topics=(*unknown_topics, *_topics(context, outcomes, version))))
    succeeded = [partition for partition, outcome in outcomes.items() if isinstance(outcome, LeaderAndIsr)]
    await partition_reassignment.maybe_complete(term, succeeded)


def verdict(current: LeaderAndIsr | None, proposed: LeaderAndIsr, live: Collection[BrokerId], version: int) -> Verdict:
    """Decide on one proposal. Pure (IS-10).

    Args:
        current: the state in the controller's memory; None if the partition has had no leader.
        proposed: the state the leader wants, at the partition epoch it knows.
        live: the brokers that may be in an ISR: registered and not shutting down.
        version: of the request; it decides the error for a replica that may not join.
    """
    if current is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if proposed.partition_epoch > current.partition_epoch or proposed.leader_epoch > current.leader_epoch:
        # The leader has a newer epoch than this broker, so another broker is controller (KAFKA-14154).
        return Errors.NOT_CONTROLLER
    if proposed.leader_epoch < current.leader_epoch:
        return Errors.FENCED_LEADER_EPOCH
    if proposed.leader != current.leader or proposed.leader not in proposed.isr:
        # Kafka compares only the epochs and would make the sender leader; its KRaft controller also checks this.
        return Errors.INVALID_REQUEST
    if proposed == replace(current, partition_epoch=proposed.partition_epoch):
        return AlreadySo()
    if proposed.partition_epoch < current.partition_epoch:
        return Errors.INVALID_UPDATE_VERSION
    recovering = proposed.leader_recovery_state is LeaderRecoveryState.RECOVERING
    if recovering and (len(proposed.isr) > 1 or current.leader_recovery_state is LeaderRecoveryState.RECOVERED):
        return Errors.INVALID_REQUEST
    if any(replica not in live for replica in proposed.isr):
        return Errors.INELIGIBLE_REPLICA if version > 1 else Errors.OPERATION_NOT_ATTEMPTED
    return Accept()


def _log_rejected(term: Term, partition: TopicPartition, proposed: LeaderAndIsr, error: Errors) -> None:
    """Log the rejected proposal with the current epochs (LG-11)."""
    known = term.context.leadership.get(partition)
    current = None if known is None else known.leader_and_isr
    log.info(
        "rejecting AlterPartition",
        broker=proposed.leader,
        partition=str(partition),
        error=error.name,
        leader_epoch=proposed.leader_epoch,
        partition_epoch=proposed.partition_epoch,
        isr=proposed.isr,
        current_leader_epoch=None if current is None else current.leader_epoch,
        current_partition_epoch=None if current is None else current.partition_epoch,
    )


def _decide(term: Term, partition: TopicPartition, proposed: LeaderAndIsr, version: int) -> Verdict:
    """Return the verdict on one proposal. A refusal because of an epoch is recorded as a hit of the fence."""
    known = term.context.leadership.get(partition)
    if known is None:
        return verdict(None, proposed, term.context.live_broker_ids, version)
    current = known.leader_and_isr
    found = verdict(current, proposed, term.context.live_broker_ids, version)
    is_repeated = found == AlreadySo() and proposed.partition_epoch < current.partition_epoch
    if is_repeated and not term.rules.repeated_alter_partition_is_accepted.holds_for(partition):
        return Errors.INVALID_UPDATE_VERSION
    if found in _INELIGIBLE and not term.rules.new_isr_is_of_live_brokers.holds_for(partition):
        return Accept()
    if found is Errors.NOT_CONTROLLER and not term.rules.newer_leader_is_sent_to_controller.holds_for(partition):
        same_leader = proposed.leader_epoch == current.leader_epoch
        found = Errors.INVALID_UPDATE_VERSION if same_leader else Errors.FENCED_LEADER_EPOCH
    if found in _STALE_EPOCH and not _is_refused_by_fence(term, partition, proposed, current):
        return Accept()
    return found


def _is_refused_by_fence(term: Term, partition: TopicPartition, proposed: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    if proposed.leader_epoch != current.leader_epoch:
        offered, known = proposed.leader_epoch, current.leader_epoch
    else:
        offered, known = proposed.partition_epoch, current.partition_epoch
    return term.fences.record_hit(Fence.ALTER_PARTITION_EPOCHS, what=str(partition), offered=offered, known=known)


def _validate_broker(term: Term, request: AlterPartitionRequest) -> None:
    """Refuse a request of a broker that is not registered, or of an earlier registration (IS-8).

    Raises:
        ApiError: the error for the whole request.
    """
    known = term.context.broker_epoch(BrokerId(request.broker_id))
    if known is None:
        raise ApiError(Errors.STALE_BROKER_EPOCH, f"broker {request.broker_id} is not registered")
    if request.broker_epoch != known and term.fences.record_hit(
        Fence.REQUEST_BROKER_EPOCH,
        what=f"AlterPartition from {request.broker_id}",
        offered=request.broker_epoch,
        known=known,
    ):
        raise ApiError(
            Errors.STALE_BROKER_EPOCH, f"broker {request.broker_id} sent {request.broker_epoch}, is at {known}"
        )


def _proposals(
    context: ControllerContext, request: AlterPartitionRequest, version: int
) -> tuple[dict[TopicPartition, LeaderAndIsr], list[AlterPartitionResponseTopicData]]:
    """Return the proposals by partition, and the responses for topics whose id is unknown (IS-9)."""
    proposals: dict[TopicPartition, LeaderAndIsr] = {}
    unknown = []
    for topic in request.topics:
        name = context.topic_names.get(topic.topic_id) if version > 1 else topic.topic_name
        if name is None:
            unknown.append(_unknown_topic(topic))
            continue
        for data in topic.partitions:
            # The sender proposes itself as leader; the epochs show whether it still is the leader (IS-11).
            proposals[TopicPartition(name, data.partition_index)] = LeaderAndIsr(
                BrokerId(request.broker_id),
                data.leader_epoch,
                _proposed_isr(data, version),
                _recovery_state(data.leader_recovery_state),
                data.partition_epoch,
            )
    return proposals, unknown


def _proposed_isr(data: AlterPartitionRequestPartitionData, version: int) -> tuple[BrokerId, ...]:
    members = (member.broker_id for member in data.new_isr_with_epochs) if version > 2 else data.new_isr
    return tuple(BrokerId(member) for member in members)


def _recovery_state(value: int) -> LeaderRecoveryState:
    """Return the leader recovery state for its number in the request.

    Raises:
        ApiError: there is no such state.
    """
    if value not in (LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING):
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, f"leader recovery state {value}; expected 0 or 1")
    return LeaderRecoveryState(value)


async def _write(term: Term, accepted: Mapping[TopicPartition, LeaderAndIsr]) -> dict[TopicPartition, _Outcome]:
    """Write the accepted proposals. The leader epoch stays; on a conflict the leader proposes again (IS-12)."""
    writes = StateWrites(term, "alter_partition", why="alter-partition")
    conflicts = await writes.write(accepted)
    outcomes: dict[TopicPartition, _Outcome] = dict.fromkeys(conflicts, Errors.INVALID_UPDATE_VERSION)
    for partition in with_a_line(log, conflicts):
        log.info("failed to update ISR, bad version", partition=str(partition), isr=accepted[partition].isr)
    for partition, outcome in writes.outcomes.items():
        if isinstance(outcome, LeaderAndIsr):
            outcomes[partition] = outcome
        else:
            log.error("failed to update ISR", partition=str(partition), why=outcome.label)
            is_gone = outcome.failure is Failure.NO_NODE
            outcomes[partition] = Errors.UNKNOWN_TOPIC_OR_PARTITION if is_gone else Errors.UNKNOWN_SERVER_ERROR
    return outcomes


# ------------------------------------------------------------------ the response


def _topics(
    context: ControllerContext, outcomes: Mapping[TopicPartition, _Outcome], version: int
) -> Iterator[AlterPartitionResponseTopicData]:
    by_topic = grouped((at.topic, _partition(at.partition, outcome)) for at, outcome in outcomes.items())
    for topic, partitions in by_topic.items():
        if version > 1:
            yield AlterPartitionResponseTopicData(topic_id=context.topic_ids[topic], partitions=partitions)
        else:
            yield AlterPartitionResponseTopicData(topic_name=topic, partitions=partitions)


def _partition(index: int, outcome: _Outcome) -> AlterPartitionResponsePartitionData:
    if isinstance(outcome, Errors):
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=outcome)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=outcome.isr,
        leader_recovery_state=outcome.leader_recovery_state,
        partition_epoch=outcome.partition_epoch,
    )


def _unknown_topic(topic: AlterPartitionRequestTopicData) -> AlterPartitionResponseTopicData:
    refused = tuple(
        AlterPartitionResponsePartitionData(partition_index=data.partition_index, error_code=Errors.UNKNOWN_TOPIC_ID)
        for data in topic.partitions
    )
    return AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=refused)
