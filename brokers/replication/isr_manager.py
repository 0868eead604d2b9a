"""Keeps the ISR of every partition led here up to date: proposes changes, and applies what the controller answers.

Mirrors `maybeExpandIsr`, `maybeShrinkIsr` and `submitAlterPartition` of `kafka.cluster.Partition`, and the
isr-expiration task of `ReplicaManager`. The decisions are in `understudy.brokers.replication.isr`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.brokers.metadata.metadata_cache import MetadataCache
from understudy.brokers.replication import isr
from understudy.brokers.replication.alter_partition_manager import AlterPartitionManager, IsrChange
from understudy.brokers.replication.isr import OnRefusal
from understudy.brokers.replication.partition import UNKNOWN_OFFSET, FollowerState, IsrProposal, LastFetch, Partition
from understudy.brokers.replication.replica_manager import ReplicaManager
from understudy.brokers.replication.replica_metrics import IsrMeters
from understudy.brokers.replication.zk_alter_partition_manager import ZkAlterPartitionManager
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import IsrProposed, IsrResult
from understudy.foundation.eventlog.rules import Rules
from understudy.foundation.operator_lines import LinesPerSecond
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.cluster.Partition")


class IsrManager:
    """Proposes that followers join or leave the ISR. `run_checks` and `alter_partitions.run` are long-lived tasks."""

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
        rules: Rules,
    ) -> None:
        self._max_lag_ms = config.replica_lag_time_max_ms
        self._clock = clock
        self._events = events
        self._metadata = metadata
        self._replicas = replicas
        self._rules = rules
        self._channel = channel
        self.meters = IsrMeters(clock)
        self._lines = LinesPerSecond(log, clock.monotonic_ms)
        version = config.metadata_version
        self.alter_partitions: AlterPartitionManager | ZkAlterPartitionManager
        if version.is_alter_partition_supported:
            self.alter_partitions = AlterPartitionManager(
                replicas.broker_id,
                channel=channel,
                broker_epoch=broker_epoch,
                on_answer=self._on_answer,
                highest_version=version.alter_partition_version,
            )
        else:
            self.alter_partitions = ZkAlterPartitionManager(
                BrokerId(replicas.broker_id), zk=zk, clock=clock, on_answer=self._on_answer
            )

    def follower_fetched(
        self,
        partition: Partition,
        follower: int,
        fetch_offset: int,
        *,
        leader_epoch: int,
        log_start_offset: int = UNKNOWN_OFFSET,
        now_ms: float | None = None,
    ) -> None:
        """Note that `follower` has fetched at `fetch_offset`, and propose that it joins the ISR if it may (IS-1).

        The high watermark rises if this was the last replica to have the records below.

        Args:
            now_ms: when the Fetch came, if that was not just now.
        """
        state, log_of_leader = partition.state, partition.log
        known = partition.followers.get(follower)
        end_before = UNKNOWN_OFFSET if known is None else known.log_end_offset
        start_before = UNKNOWN_OFFSET if known is None else known.log_start_offset
        if known is None:
            known = FollowerState(last_caught_up_ms=state.leader_since_ms if follower in state.isr else 0.0)
        known = isr.after_fetch(
            known,
            fetch_offset,
            self._clock.monotonic_ms() if now_ms is None else now_ms,
            leader_end_offset=log_of_leader.log_end_offset,
            leader_epoch=leader_epoch,
            log_start_offset=log_start_offset,
        )
        partition.update_follower(follower, known)
        if follower not in state.isr:
            self._maybe_expand(partition, follower, known)
        if known.log_end_offset != end_before:  # in nearly no Fetch, and one brings up to 33,000 partitions
            self._replicas.maybe_increment_high_watermark(partition)
        if known.log_start_offset != start_before:
            self._replicas.delayed_deletes.check_and_complete((partition.topic_partition,))

    def count_session_fetches(
        self, partition: Partition, follower: int, fetch_offset: int, last_fetch: LastFetch
    ) -> bool:
        """Have every further Fetch of a session count for a partition of which it reads nothing, until it changes.

        Returns whether that is the same as `follower_fetched` for each of them; otherwise nothing has changed.
        """
        known = partition.followers.get(follower)
        if not partition.is_leader or known is None or known.log_end_offset != fetch_offset:
            return False
        settled = isr.in_session(
            partition.state, follower, known, last_fetch, leader_end_offset=partition.log.log_end_offset
        )
        if settled is not None:
            partition.update_follower(follower, settled)
        return settled is not None

    def count_session_fetches_no_more(self, topic_partition: TopicPartition, follower: int) -> None:
        """Have only the Fetches of a session that have come so far count for a partition, which has changed."""
        partition = self._replicas.partitions.get(topic_partition)
        known = None if partition is None else partition.followers.get(follower)
        if partition is not None and known is not None and known.session is not None:
            partition.update_follower(follower, known.current)

    def _maybe_expand(self, partition: Partition, follower: int, known: FollowerState) -> None:
        high_watermark, epoch_start = partition.log.high_watermark, partition.leader_epoch_start_offset
        is_too_short = high_watermark <= known.log_end_offset < epoch_start
        if is_too_short and not self._rules.new_isr_member_has_epoch_start.holds_for(partition.topic_partition):
            epoch_start = known.log_end_offset
        proposal = isr.expansion(
            partition.state,
            follower,
            known,
            high_watermark=high_watermark,
            leader_epoch_start_offset=epoch_start,
            is_alive=self._metadata.snapshot.is_alive,
        )
        if proposal is not None:
            self._propose(partition, proposal)

    def check_isrs(self) -> None:
        """Look at every partition led here: repeat what was refused, or propose that lagging followers leave (IS-2)."""
        led = [here for here, partition in self._replicas.partitions.items() if partition.is_leader]
        for topic_partition in sorted(led):
            partition = self._replicas.partitions[topic_partition]
            if partition.state.proposal is None:
                self._maybe_shrink(partition)
            else:
                self._maybe_repeat(partition, partition.state.proposal)

    async def run_checks(self) -> None:
        """Check the ISRs every half `replica.lag.time.max.ms`, without end."""
        while True:
            await asyncio.sleep(self._max_lag_ms / 2000)
            self.check_isrs()

    def _maybe_shrink(self, partition: Partition) -> None:
        proposal = isr.shrinkage(
            partition.state,
            partition.followers,
            broker_id=self._replicas.broker_id,
            leader_end_offset=partition.log.log_end_offset,
            now_ms=self._clock.monotonic_ms(),
            max_lag_ms=self._max_lag_ms,
        )
        if proposal is not None:
            self._propose(partition, proposal)

    def _maybe_repeat(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a pending proposal again, unless it is under way: its answer has not decided it."""
        may_repeat = isr.may_repeat(
            proposal,
            partition.followers,
            high_watermark=partition.log.high_watermark,
            leader_epoch_start_offset=partition.leader_epoch_start_offset,
            is_alive=self._metadata.snapshot.is_alive,
        )
        if may_repeat and self._rules.undecided_isr_change_is_repeated.holds_for(partition.topic_partition):
            self.alter_partitions.submit(_change_of(partition, proposal))

    def _propose(self, partition: Partition, proposal: IsrProposal) -> None:
        if not self.alter_partitions.submit(_change_of(partition, proposal)):
            return  # a proposal of an earlier epoch has no answer yet; the next Fetch or check proposes again
        partition.update_isr(isr.with_proposal(partition.state, proposal))
        if proposal.leaving:
            self._log_shrinking(partition, proposal)
        followers = partition.followers
        joining = tuple((member, followers[member]) for member in proposal.joining if member in followers)
        self._events.append(
            IsrProposed(
                topic=partition.topic_partition.topic,
                partition=partition.topic_partition.partition,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=proposal.isr,
                joining=proposal.joining,
                leaving=proposal.leaving,
                leader_end_offset=partition.log.log_end_offset,
                follower_end_offsets=tuple((member, known.log_end_offset) for member, known in joining),
                follower_leader_epochs=tuple((member, known.leader_epoch) for member, known in joining),
                high_watermark=partition.log.high_watermark,
                epoch_start_offset=partition.leader_epoch_start_offset,
            )
        )

    def _on_answer(self, change: IsrChange, error: Errors, answer: AlterPartitionResponsePartitionData) -> None:
        self._record_answer(change, answer)
        partition = self._replicas.partitions.get(change.topic_partition)
        if partition is None or partition.state.proposal != change.proposal:
            return  # a control request has overtaken the answer
        if error is Errors.NONE:
            self._on_success(partition, change.proposal, answer)
        else:
            self._on_error(partition, change, error)

    def _on_success(
        self, partition: Partition, proposal: IsrProposal, answer: AlterPartitionResponsePartitionData
    ) -> None:
        state = isr.accepted(
            partition.state,
            proposal,
            leader_epoch=answer.leader_epoch,
            partition_epoch=answer.partition_epoch,
            isr=answer.isr,
        )
        self._count(proposal, accepted=state is not None)
        if state is not None:
            partition.update_isr(state)
            self._log_updated(partition)
            # Without a lagging member the high watermark may be higher.
            if not proposal.leaving or self._rules.smaller_isr_moves_high_watermark.holds_for(
                partition.topic_partition
            ):
                self._replicas.maybe_increment_high_watermark(partition)
            # A follower that has left the ISR may join it again with its next Fetch, which has to be noted for that.
            self._replicas.delayed_fetches.check_and_complete((partition.topic_partition,))
            # The ISR itself may decide a Produce that waits for it.
            self._replicas.delayed_produces.check_and_complete((partition.topic_partition,))

    def _on_error(self, partition: Partition, change: IsrChange, error: Errors) -> None:
        self._count(change.proposal, accepted=False)
        match isr.on_refusal(error):
            case OnRefusal.REVERT:
                partition.update_isr(isr.with_proposal(partition.state, None))
            case OnRefusal.RETRY:
                self.alter_partitions.submit(change)
            case OnRefusal.AWAIT_METADATA:
                self._channel.forget_former_controller()

    def _log_shrinking(self, partition: Partition, proposal: IsrProposal) -> None:
        """Log a shrinking ISR (LG-24)."""
        left_out = self._lines.take()
        if left_out is None:
            return
        known = partition.followers
        log.info(
            "shrinking ISR",
            broker=self._replicas.broker_id,
            partition=str(partition.topic_partition),
            isr=partition.state.isr,
            new_isr=proposal.isr,
            high_watermark=partition.log.high_watermark,
            end_offset=partition.log.log_end_offset,
            out_of_sync={
                member: known[member].log_end_offset if member in known else None for member in proposal.leaving
            },
            **left_out,
        )

    def _log_updated(self, partition: Partition) -> None:
        """Log an ISR that the controller has written (LG-24)."""
        left_out = self._lines.take()
        if left_out is not None:
            now = {"isr": partition.state.isr, "partition_epoch": partition.state.partition_epoch}
            about = {"broker": self._replicas.broker_id, "partition": str(partition.topic_partition)}
            log.info("ISR updated", **about, **now, **left_out)

    def _count(self, proposal: IsrProposal, *, accepted: bool) -> None:
        if not accepted:
            self.meters.failed.mark()
        elif proposal.joining:
            self.meters.expands.mark()
        else:
            self.meters.shrinks.mark()

    def _record_answer(self, change: IsrChange, answer: AlterPartitionResponsePartitionData) -> None:
        self._events.append(
            IsrResult(
                topic=change.topic_partition.topic,
                partition=change.topic_partition.partition,
                error=error_name(answer.error_code),
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
                isr=answer.isr,
            )
        )


def _change_of(partition: Partition, proposal: IsrProposal) -> IsrChange:
    state = partition.state
    return IsrChange(partition.topic_partition, state.topic_id, proposal, state.controller_epoch)
