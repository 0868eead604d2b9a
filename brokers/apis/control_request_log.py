"""Logs to `state.change.logger` which control requests a broker receives and what it does with them. Mirrors the lines
of `ReplicaManager`.

A request for many partitions has a line as a whole, and the first partitions have lines of their own
(`understudy.foundation.operator_lines`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import structlog

from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.replication.leader_and_isr_step import LeaderAndIsrStep, RequestedState
from understudy.brokers.replication.partition import LocalPartitionState, Partition
from understudy.brokers.replication.stop_replica_step import StopReplicaStep
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER_EPOCH
from understudy.foundation.operator_lines import with_a_line
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest
from understudy.foundation.wire.registry import api_of

ControlRequest: TypeAlias = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


class ControlRequestLog:
    """Writes the lines of one control request."""

    def __init__(self, services: BrokerServices, request: ControlRequest, context: RequestContext) -> None:
        self._services = services
        self._log = log.bind(
            broker=services.broker_id,
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            correlation_id=context.correlation_id,
        )
        self._api = api_of(request).name
        self._broker_epoch = request.broker_epoch
        self._received_ms = services.clock.monotonic_ms()

    def ignored(self, error: Errors) -> None:
        """Log a request that is refused as a whole (LG-22)."""
        self._log.warning(
            "ignoring control request",
            api=self._api,
            error=error.name,
            broker_epoch=self._broker_epoch,
            current_broker_epoch=self._services.broker_epoch(),
            current_controller_epoch=self._services.replicas.controller_epoch,
        )

    # -- LeaderAndIsr

    def leader_and_isr_received(self, requested: Sequence[RequestedState]) -> None:
        """Log the request (LG-21)."""
        self._log.info("handling LeaderAndIsr request", partitions=len(requested))

    def leader_and_isr_applied(self, requested: Sequence[RequestedState], step: LeaderAndIsrStep) -> None:
        """Log the new leaders and followers (LG-21), and the partitions that were ignored (LG-22)."""
        lines = tuple(with_a_line(log, requested))
        applied = (
            {TopicPartition(each.topic, each.partition) for each in (*step.leaders, *step.followers)} if lines else ()
        )
        for here, _, _ in lines:
            if here in applied:
                self._starts(self._services.replicas.partitions[here], step.before[here])
        self._ignored_partitions(requested, step)
        took_ms = round(self._services.clock.monotonic_ms() - self._received_ms, 3)
        counts = {"leaders": len(step.leaders), "followers": len(step.followers)}
        self._log.info("finished LeaderAndIsr request", **counts, took_ms=took_ms)

    def _starts(self, partition: Partition, was: LocalPartitionState | None) -> None:
        state = partition.state
        about = {
            "partition": str(partition.topic_partition),
            "topic_id": state.topic_id,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "end_offset": partition.log.log_end_offset,
            "high_watermark": partition.log.high_watermark,
            "isr": state.isr,
            "adding_replicas": state.adding_replicas,
            "removing_replicas": state.removing_replicas,
            "previous_leader": None if was is None else was.leader,
            "previous_leader_epoch": None if was is None else was.leader_epoch,
        }
        if partition.is_leader:
            self._log.info("leader starts", **about)
        else:
            self._log.info("follower starts", **about)

    def _ignored_partitions(self, requested: Sequence[RequestedState], step: LeaderAndIsrStep) -> None:
        """Log the partitions in error, but no repeated leader epoch: every new controller repeats them all (LG-22)."""
        if not any(step.errors.values()):
            return

        def ignored() -> Iterator[tuple[TopicPartition, LeaderAndIsrPartitionState, int]]:
            for here, _, state in requested:
                was = step.before[here]
                known = NO_LEADER_EPOCH if was is None else was.leader_epoch
                if step.errors[here] and state.leader_epoch != known:
                    yield here, state, known

        for here, state, known in with_a_line(log, ignored(), level=logging.WARNING):
            epochs = {"leader_epoch": state.leader_epoch, "current_leader_epoch": known}
            self._log.warning(
                "ignoring LeaderAndIsr of a partition",
                partition=str(here),
                **epochs,
                error=step.errors[here].name,
            )

    # -- StopReplica

    def stop_replica_received(self, partitions: int) -> None:
        """Log the request (LG-23)."""
        self._log.info("handling StopReplica request", partitions=partitions)

    def stop_replica_applied(self, step: StopReplicaStep) -> None:
        """Log the replicas that are not stopped (LG-22)."""
        refused = ((here, error) for here, error in step.errors.items() if error)
        for here, error in with_a_line(log, refused, level=logging.WARNING):
            known = self._services.replicas.partitions[here].leader_epoch
            self._log.warning(
                "ignoring StopReplica of a partition",
                partition=str(here),
                current_leader_epoch=known,
                error=error.name,
            )

    # -- UpdateMetadata

    def metadata_updated(self, request: UpdateMetadataRequest, deleted: Sequence[TopicPartition]) -> None:
        """Log how many partitions were added to the cache and deleted from it (LG-23)."""
        named = sum(len(topic.partition_states) for topic in request.topic_states) + len(
            request.ungrouped_partition_states
        )
        self._log.info("updated metadata cache", added_partitions=named - len(deleted), deleted_partitions=len(deleted))
