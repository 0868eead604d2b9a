"""Writes this leader's ISR changes into ZooKeeper, as before KIP-497. Mirrors `kafka.server.ZkAlterPartitionManager`.

Used if `inter.broker.protocol.version` is below 2.7-IV2: the leader writes the state znode itself, conditionally on its
version (IS-16). The controller is notified seconds later, by one znode for many changes (IS-17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from understudy.brokers.replication.alter_partition_manager import IsrChange, OnAnswer
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure

CHECK_INTERVAL_MS = 2_500
LINGER_MS = 5_000
"""Time without a change of an ISR for which a notification waits."""
MAX_DELAY_MS = 60_000
"""Maximum time that a notification waits after the last one."""
RETRY_BACKOFF_MS = 100
"""Time before a write that ZooKeeper did not answer is repeated, perhaps in a new session."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ZkAlterPartitionManager")


def is_due(now_ms: float, *, last_change_ms: float, last_notification_ms: float) -> bool:
    """Whether changes that have not been announced are to be announced now (IS-17)."""
    return last_change_ms + LINGER_MS < now_ms or last_notification_ms + MAX_DELAY_MS < now_ms


class ZkAlterPartitionManager:
    """A queue of ISR changes like `AlterPartitionManager`'s, and the task (`run`) that writes and announces them.

    Args:
        zk: the store over the current session.
        on_answer: called with each change and its outcome, in order; it may submit the next change.
    """

    def __init__(
        self, broker_id: BrokerId, *, zk: Callable[[], KafkaZkClient], clock: Clock, on_answer: OnAnswer
    ) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._clock = clock
        self._on_answer = on_answer
        self._unwritten: dict[TopicPartition, IsrChange] = {}
        self._submitted = asyncio.Event()
        self._unannounced: set[TopicPartition] = set()
        self._last_change_ms = self._last_notification_ms = clock.monotonic_ms()

    def submit(self, change: IsrChange) -> bool:
        """Queue `change`; False if an earlier one of its partition has not been written yet."""
        if change.topic_partition in self._unwritten:
            return False
        self._unwritten[change.topic_partition] = change
        self._submitted.set()
        return True

    async def run(self) -> None:
        """Write and announce the queued changes, without end."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_changes(), name="isr-change-writes")
            tasks.create_task(self._announce_changes(), name="isr-change-propagation")

    async def _write_changes(self) -> None:
        while True:
            if not self._unwritten:
                self._submitted.clear()
                await self._submitted.wait()
            for change in tuple(self._unwritten.values()):
                try:
                    partition_epoch = await self._write(change)
                except (SessionLost, ZooKeeperFailure) as failure:
                    log.warning("an ISR could not be written", partition=str(change.topic_partition), why=str(failure))
                    await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
                    continue  # stays queued; one that ZooKeeper always refuses must not hold up the others
                del self._unwritten[change.topic_partition]
                self._settle(change, partition_epoch)

    async def _write(self, change: IsrChange) -> int | None:
        proposal = change.proposal
        state = LeaderAndIsr(
            leader=self._broker_id,
            leader_epoch=proposal.leader_epoch,
            isr=tuple(BrokerId(member) for member in proposal.isr),
            partition_epoch=proposal.partition_epoch,
        )
        return await self._zk().isr_changes.update(change.topic_partition, state, change.controller_epoch)

    def _settle(self, change: IsrChange, partition_epoch: int | None) -> None:
        written = partition_epoch is not None
        if written:
            self._unannounced.add(change.topic_partition)
            self._last_change_ms = self._clock.monotonic_ms()
        answer = AlterPartitionResponsePartitionData(
            partition_index=change.topic_partition.partition,
            error_code=Errors.NONE if written else Errors.INVALID_UPDATE_VERSION,
            leader_id=self._broker_id,
            leader_epoch=change.proposal.leader_epoch,
            isr=change.proposal.isr if written else (),
            partition_epoch=-1 if partition_epoch is None else partition_epoch,
        )
        self._on_answer(change, Errors(answer.error_code), answer)

    async def _announce_changes(self) -> None:
        while True:
            now_ms = self._clock.monotonic_ms()
            due = is_due(now_ms, last_change_ms=self._last_change_ms, last_notification_ms=self._last_notification_ms)
            if self._unannounced and due:
                announced, self._unannounced = self._unannounced, set()
                try:
                    await self._zk().isr_changes.propagate(announced)
                    self._last_notification_ms = now_ms
                except (SessionLost, ZooKeeperFailure) as failure:
                    log.warning("ISR changes could not be announced", partitions=len(announced), why=str(failure))
                    self._unannounced |= announced
            await asyncio.sleep(CHECK_INTERVAL_MS / 1000)
