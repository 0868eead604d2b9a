"""Writes the controller's lines in `state.change.logger`: transitions, and the requests sent. Mirrors
`StateChangeLogger`.

One line sums up what a step does with many partitions; lines for single partitions follow
(`understudy.foundation.operator_lines`). It only reads the context.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import structlog

from understudy.controller.channels.request_batch import ControlRequest
from understudy.controller.context import ControllerContext
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.operator_lines import is_detailed, some, with_a_line
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest
from understudy.foundation.wire.registry import api_of

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


class StateChangeLog:
    """The lines of one term. Its epoch and the event in progress are in each of them, by `structlog.contextvars`."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    # -- partitions

    def partitions_enter(self, partitions: Sequence[TopicPartition], target: PartitionState) -> None:
        """Log the transition of partitions (LG-16). Called before their state changes, and after their leadership was
        written."""
        if not partitions:
            return
        log.info("changed partition states", target=target.value, partitions=len(partitions))
        states = self._context.partition_states
        if target in (PartitionState.NEW, PartitionState.ONLINE):
            for partition in with_a_line(log, partitions):
                change = {"partition": str(partition), "source": states[partition].value, "target": target.value}
                log.info("changed partition state", **change, **self._about(partition, target))
        elif is_detailed(log):
            for partition in partitions:
                change = {"partition": str(partition), "source": states[partition].value, "target": target.value}
                log.debug("changed partition state", **change)

    def _about(self, partition: TopicPartition, target: PartitionState) -> Mapping[str, object]:
        if target is PartitionState.NEW:
            return {"replicas": self._context.partition_assignment(partition).replicas}
        return _fields(self._context.leadership[partition].leader_and_isr)

    def partitions_failed(self, failed: Iterable[tuple[TopicPartition, str]], target: PartitionState) -> None:
        """Log failed transitions of partitions, with the reasons (LG-19)."""
        states = self._context.partition_states
        for partition, why in with_a_line(log, failed, level=logging.ERROR):
            source = states.get(partition, PartitionState.NON_EXISTENT).value
            change = {"partition": str(partition), "source": source, "target": target.value}
            log.error("failed to change the state of a partition", **change, why=why)

    # -- replicas

    def replicas_enter(self, broker: BrokerId, partitions: Sequence[TopicPartition], target: ReplicaState) -> None:
        """Log the transition of replicas (LG-18). Called before their state changes."""
        if not is_detailed(log):
            return
        states = self._context.replica_states[broker]
        for partition in partitions:
            change = {"partition": str(partition), "replica": broker, "source": states[partition].value}
            log.debug("changed replica state", **change, target=target.value)

    def replicas_failed(
        self, broker: BrokerId, failed: Iterable[tuple[TopicPartition, str]], target: ReplicaState
    ) -> None:
        """Log failed transitions of replicas, with the reasons (LG-19)."""
        states = self._context.replica_states.get(broker, {})
        for partition, why in with_a_line(log, failed, level=logging.ERROR):
            source = states.get(partition, ReplicaState.NON_EXISTENT).value
            change = {"partition": str(partition), "replica": broker, "source": source, "target": target.value}
            log.error("failed to change the state of a replica", **change, why=why)

    def left_isr(self, replica: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Log that replicas left the ISR (LG-20). Called when ZooKeeper and memory hold the new state."""
        for partition in with_a_line(log, partitions):
            state = self._context.leadership[partition].leader_and_isr
            log.info("removed replica from ISR", partition=str(partition), replica=replica, **_fields(state))

    # -- requests

    def sending(self, requests: Sequence[ControlRequest]) -> None:
        """Log all requests of a flush, in their order (LG-17); at level DEBUG with every state (LG-18)."""
        by_type = grouped((type(request.message), request) for request in requests)
        for request in with_a_line(log, by_type.get(LeaderAndIsrRequest, ())):
            leading = _become_leader(request)
            counts = {"become_leader": leading, "become_follower": request.partitions - leading}
            log.info("sending LeaderAndIsr request", to=request.broker_id, **counts)
        if of_kind := by_type.get(UpdateMetadataRequest):
            brokers = some(request.broker_id for request in of_kind)
            log.info("sending UpdateMetadata request", brokers=brokers, partitions=of_kind[0].partitions)
        for request in with_a_line(log, by_type.get(StopReplicaRequest, ())):
            log.info("sending StopReplica request", to=request.broker_id, partitions=request.partitions)
        if is_detailed(log):
            self._sending_in_detail(requests)

    def _sending_in_detail(self, requests: Iterable[ControlRequest]) -> None:
        for request in requests:
            if isinstance(request.message, UpdateMetadataRequest):
                continue  # Kafka does not spell these out either
            api = api_of(request.message).name
            for topic in request.message.topic_states:
                for state in topic.partition_states:
                    partition = TopicPartition(topic.topic_name, state.partition_index)
                    log.debug(
                        "sending state",
                        api=api,
                        to=request.broker_id,
                        partition=str(partition),
                        state=repr(state),
                    )


def _become_leader(request: ControlRequest) -> int:
    assert isinstance(request.message, LeaderAndIsrRequest)
    broker = request.broker_id
    return sum(state.leader == broker for topic in request.message.topic_states for state in topic.partition_states)


def _fields(state: LeaderAndIsr) -> Mapping[str, object]:
    return {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "leader_recovery_state": state.leader_recovery_state.name,
        "partition_epoch": state.partition_epoch,
    }
