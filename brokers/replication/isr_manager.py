"""Watches the ISR of every partition led here, and has it changed. The state around `brokers.replication.isr`.

Mirrors the maybeExpandIsr and maybeShrinkIsr of `kafka.cluster.Partition` and the ISR expiration task of
`ReplicaManager`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from brokers.config.kafka_config import KafkaConfig
from brokers.membership.controller_channel import ControllerChannel
from brokers.metadata.metadata_cache import MetadataCache
from brokers.replication import isr
from brokers.replication.alter_partition_manager import AlterPartitionManager, IsrChange
from brokers.replication.partition import LOG_END_OFFSET, FollowerState, IsrProposal, Partition
from brokers.replication.replica_manager import ReplicaManager
from brokers.replication.replica_metrics import IsrMeters
from brokers.replication.zk_alter_partition_manager import ZkAlterPartitionManager
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import BrokerId
from foundation.eventlog.clock import Clock
from foundation.eventlog.log import EventLog
from foundation.eventlog.records import IsrProposed, IsrResult
from foundation.operator_lines import LinesPerSecond
from foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from foundation.zk.kafka_zk_client import KafkaZkClient

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.cluster.Partition")


class IsrManager:
    """Joins followers that have caught up, drops those that lag. `run_checks` and `alter_partitions.run` are
    long-lived."""

    def __init__(
        self,
        *,
        config: KafkaConfig,
        clock: Clock,
        events: EventLog,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        channel: ControllerChannel,
        broker_epoch: Callable[[], int],
        zk: Callable[[], KafkaZkClient],
    ) -> None:
        self._max_lag_ms = config.replica_lag_time_max_ms
        self._clock = clock
        self._events = events
        self._metadata = metadata
        self._replicas = replicas
        self.meters = IsrMeters(clock)
        self._lines = LinesPerSecond(log, clock.monotonic_ms)
        version = config.metadata_version
        self.alter_partitions: AlterPartitionManager | ZkAlterPartitionManager
        if version.is_alter_partition_supported:
            self.alter_partitions = AlterPartitionManager(
                replicas.broker_id,
                channel=channel,
                broker_epoch=broker_epoch,
                answered=self._answered,
                highest_version=version.alter_partition_version,
            )
        else:
            self.alter_partitions = ZkAlterPartitionManager(
                BrokerId(replicas.broker_id), zk=zk, clock=clock, answered=self._answered
            )

    def fetched(self, partition: Partition, follower: int, fetch_offset: int, *, leader_epoch: int) -> None:
        """`follower` has asked, at `leader_epoch`, for what comes at `fetch_offset`: it has everything before
        (IS-1)."""
        followers = self._replicas.followers.setdefault(partition.topic_partition, {})
        known = followers.get(follower)
        if known is None:
            in_sync = follower in partition.isr
            known = FollowerState(last_caught_up_ms=partition.leader_since_ms if in_sync else 0.0)
        state = followers[follower] = isr.after_fetch(
            known, fetch_offset, self._clock.monotonic_ms(), leader_epoch=leader_epoch
        )
        proposal = isr.expansion(partition, follower, state, is_alive=self._metadata.snapshot.is_alive)
        if proposal is not None:
            self._propose(partition, proposal)

    def shrink(self) -> None:
        """IS-2: one look at every partition led here."""
        now_ms = self._clock.monotonic_ms()
        for topic_partition in sorted(self._replicas.partitions):
            partition = self._replicas.partitions[topic_partition]
            if not partition.is_leader:
                continue
            proposal = isr.shrinkage(
                partition,
                self._replicas.followers.get(topic_partition, {}),
                broker_id=self._replicas.broker_id,
                now_ms=now_ms,
                max_lag_ms=self._max_lag_ms,
            )
            if proposal is not None:
                self._propose(partition, proposal)

    async def run_checks(self) -> None:
        while True:
            await asyncio.sleep(self._max_lag_ms / 2000)
            self.shrink()

    def _propose(self, partition: Partition, proposal: IsrProposal) -> None:
        change = IsrChange(partition.topic_partition, partition.topic_id, proposal, partition.controller_epoch)
        if not self.alter_partitions.submit(change):
            return  # the controller has yet to answer for an earlier epoch; the next fetch or check tries again
        self._replicas.replace(isr.proposing(partition, proposal))
        followers = self._replicas.followers.get(partition.topic_partition, {})
        joining = tuple((member, followers[member]) for member in proposal.joining if member in followers)
        if proposal.leaving:
            self._log_shrinking(partition, proposal)
        self._events.append(
            IsrProposed(
                topic=partition.topic_partition.topic,
                partition=partition.topic_partition.partition,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=proposal.isr,
                joining=proposal.joining,
                leaving=proposal.leaving,
                leader_end_offset=LOG_END_OFFSET,
                follower_end_offsets=tuple((member, state.log_end_offset) for member, state in joining),
                follower_leader_epochs=tuple((member, state.leader_epoch) for member, state in joining),
                high_watermark=isr.HIGH_WATERMARK,
                epoch_start_offset=isr.EPOCH_START_OFFSET,
            )
        )

    def _answered(self, change: IsrChange, error: Errors, answer: AlterPartitionResponsePartitionData) -> None:
        self._record_answer(change, error, answer)
        partition = self._replicas.partitions.get(change.topic_partition)
        if partition is None:
            return
        if error is Errors.NONE:
            after, again = (
                isr.accepted(
                    partition,
                    change.proposal,
                    leader_epoch=answer.leader_epoch,
                    partition_epoch=answer.partition_epoch,
                    isr=answer.isr,
                ),
                False,
            )
        else:
            after, again = isr.refused(partition, change.proposal, error)
        if partition.proposal == change.proposal:
            self._count(change.proposal, accepted=error is Errors.NONE and after is not None)
        if after is not None:
            self._replicas.replace(after)
            if error is Errors.NONE:
                self._log_updated(after)
        if again:
            self.alter_partitions.submit(change)

    def _log_shrinking(self, partition: Partition, proposal: IsrProposal) -> None:
        """LG-24."""
        left_out = self._lines.take()
        if left_out is None:
            return
        known = self._replicas.followers.get(partition.topic_partition, {})
        log.info(
            "shrinking ISR",
            broker=self._replicas.broker_id,
            partition=str(partition.topic_partition),
            isr=partition.isr,
            to=proposal.isr,
            high_watermark=isr.HIGH_WATERMARK,
            end_offset=LOG_END_OFFSET,
            out_of_sync={
                member: known[member].log_end_offset if member in known else None for member in proposal.leaving
            },
            **left_out,
        )

    def _log_updated(self, partition: Partition) -> None:
        """LG-24."""
        left_out = self._lines.take()
        if left_out is not None:
            now = {"isr": partition.isr, "partition_epoch": partition.partition_epoch}
            about = {"broker": self._replicas.broker_id, "partition": str(partition.topic_partition)}
            log.info("ISR updated", **about, **now, **left_out)

    def _count(self, proposal: IsrProposal, *, accepted: bool) -> None:
        if not accepted:
            self.meters.failed.mark()
        elif proposal.joining:
            self.meters.expands.mark()
        else:
            self.meters.shrinks.mark()

    def _record_answer(self, change: IsrChange, error: Errors, answer: AlterPartitionResponsePartitionData) -> None:
        self._events.append(
            IsrResult(
                topic=change.topic_partition.topic,
                partition=change.topic_partition.partition,
                error=error.name,
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
                isr=answer.isr,
            )
        )
