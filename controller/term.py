"""One term of a controller: everything it works with from its election to its resignation.

It is made new at each election and dropped as a whole, so that nothing of an earlier term is left over (Kafka resets
and reuses one context). The procedures are functions of a term; only the running event uses it. There is no such class
in Kafka: these are private fields of `KafkaController`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from understudy.controller.channels.channel_manager import ControllerChannelManager
from understudy.controller.channels.request_batch import LastUpdateMetadata, RequestBatch
from understudy.controller.context import ControllerContext
from understudy.controller.controller_metrics import ControllerStats
from understudy.controller.events import ControllerEvent
from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.controller.settings import ControllerSettings
from understudy.controller.state_change_log import StateChangeLog
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.fences import Fence, Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.points import Points
from understudy.foundation.eventlog.records import Leadership, LeadershipWritten
from understudy.foundation.eventlog.rules import Rules
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient


@dataclass(slots=True, kw_only=True)
class Term:
    """The state and the ports of one term.

    Args:
        features: the finalized features that this broker has read from `/feature`.
        put: queues an event behind the running one.
    """

    broker_id: BrokerId
    zk: KafkaZkClient
    features: FinalizedFeatureCache
    context: ControllerContext
    channels: ControllerChannelManager
    settings: ControllerSettings
    clock: Clock
    events: EventLog
    fences: Fences
    points: Points
    put: Callable[[ControllerEvent], None]
    new_topic_id: Callable[[], TopicId]
    stats: ControllerStats
    rebalance_timer: asyncio.TimerHandle | None = None
    """The timer of the next check for leader imbalance; it ends with the term."""
    running: str = ""
    """The name of the event in progress, for the records of the requests it sends."""
    is_expiring: bool = False
    """Whether the session has expired: an event was interrupted, and the context is not kept up to date any more."""
    leaders_write_isrs: bool = False
    """Whether a leader has announced an ISR change that it wrote itself: memory may be older than ZooKeeper."""
    changes_recorded: int = field(default=-1)
    """`context.changes` when the context was last recorded."""
    last_update_metadata: LastUpdateMetadata = field(default_factory=LastUpdateMetadata)
    """What the batches of the event in progress share."""
    state_changes: StateChangeLog = field(init=False)

    def __post_init__(self) -> None:
        self.state_changes = StateChangeLog(self.context)

    @property
    def rules(self) -> Rules:
        """What the controller does since the fixes of historic bugs."""
        return self.fences.rules

    def new_batch(self) -> RequestBatch:
        settings = self.settings
        return RequestBatch(
            self.context,
            self.broker_id,
            settings.inter_broker_listener_name,
            settings.inter_broker_protocol_version,
            self.last_update_metadata,
        )

    async def flush(self, batch: RequestBatch, procedure: str) -> None:
        """Hand the requests of `batch` to the channels, without waiting until they are sent.

        Args:
            procedure: its points stand before and after.
        """
        requests = batch.requests()
        if requests:
            await self.points.reach(f"{procedure}.before_flush")
            self.state_changes.sending(requests)
            self.channels.send(requests, event=self.running)
            await self.points.reach(f"{procedure}.after_flush")

    async def send_update_metadata(
        self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()
    ) -> None:
        """Send UpdateMetadata to `brokers`; without partitions it carries the live brokers only."""
        batch = self.new_batch()
        batch.add_update_metadata(brokers, partitions)
        await self.flush(batch, "metadata")

    def accept(self, written: Mapping[TopicPartition, LeaderAndIsr], why: str) -> None:
        """Take into memory exactly what ZooKeeper accepted, and record it.

        Args:
            why: as in `LeadershipWritten`.
        """
        if not written:
            return
        epoch = self.context.epoch
        known = {partition: LeaderIsrAndControllerEpoch(state, epoch) for partition, state in written.items()}
        self.context.put_leadership(known)
        self.events.append(LeadershipWritten(why=why, partitions=leaderships(known)))

    def is_fenced_by_newer_controller(self, partition: TopicPartition, controller_epoch: int) -> bool:
        """Whether a newer controller has written the state of `partition`, so that this one must not (EL-15)."""
        epoch = self.context.epoch
        return controller_epoch > epoch and self.fences.record_hit(
            Fence.STATE_CONTROLLER_EPOCH, what=str(partition), offered=epoch, known=controller_epoch
        )


def leaderships(known: Mapping[TopicPartition, LeaderIsrAndControllerEpoch]) -> tuple[Leadership, ...]:
    """Return the leaderships as records carry them."""
    return tuple(
        [
            Leadership(
                topic,
                partition,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.partition_epoch,
                found.controller_epoch,
                state.leader_recovery_state,
            )
            for (topic, partition), found in known.items()
            for state in (found.leader_and_isr,)
        ]
    )
