"""`KafkaController`: from event to procedure, and in and out of office. Mirrors its Kafka namesake.

Every broker has one. It takes part in the race for `/controller`; while it holds the role it has a `Term`, and
everything it does happens inside an event. What the procedures are is written in the modules they live in; here is only
when.

    the role      Startup, ControllerChange, Reelect, RegisterBrokerAndReelect, Expire, ForcedResignation
    the cluster   BrokerChange, BrokerModifications, LogDirEventNotification, IsrChangeNotification,
                  TopicChange, PartitionModifications, TopicDeletion,
                  ZkPartitionReassignment, PartitionReassignmentIsrChange
    the brokers   LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived, TopicDeletionStopReplicaResponseReceived
    the clients   AlterPartitionReceived, ControlledShutdown, ReplicaLeaderElection, ApiPartitionReassignment,
                  ListPartitionReassignments, AllocateProducerIds, UpdateFeatures
    the rest      AutoPreferredReplicaLeaderElection, UncleanLeaderElectionEnable, TopicUncleanLeaderElectionEnable
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import assert_never

import structlog

from controller import (
    alter_partition,
    auto_rebalance,
    broker_lifecycle,
    controlled_shutdown,
    failover,
    features,
    isr_change_notification,
    producer_ids,
    replica_leader_election,
    topic_changes,
    topic_deletion,
    unclean_election,
    watches,
)
from controller.channels.channel_manager import ControllerChannelManager
from controller.context import ControllerContext
from controller.controller_election import NO_CONTROLLER, STANDS_ASIDE_MS, ControllerElection
from controller.controller_metrics import Census, ControllerStats, channel_readings, event_queue_readings, role_readings
from controller.event_manager import ControllerEventManager
from controller.events import (
    ELECTING_EVENTS,
    AllocateProducerIds,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ControlledShutdown,
    ControllerChange,
    ControllerEvent,
    ElectionTrigger,
    ElectionType,
    Expire,
    FeatureUpdate,
    FeatureUpdateResults,
    ForcedResignation,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    LeaderElectionResults,
    ListPartitionReassignments,
    LogDirEventNotification,
    OngoingReassignments,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    ReassignmentResults,
    Reelect,
    RegisterBrokerAndReelect,
    ReplicaLeaderElection,
    Reply,
    ShutdownEventThread,
    Startup,
    TermEvent,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
    UpdateFeatures,
    UpdateMetadataResponseReceived,
    ZkPartitionReassignment,
    name_of,
    preempt,
    refuse,
)
from controller.faults import Cost, Fault, classify
from controller.feature_cache import FinalizedFeatureCache
from controller.reassignment import partition_reassignment
from controller.settings import ControllerSettings
from controller.term import Term
from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition, random_topic_id
from foundation.eventlog.clock import Clock
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog
from foundation.eventlog.points import Points
from foundation.eventlog.records import ContextAtIdle, ControllerResigned
from foundation.metrics.mbeans import Reading
from foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from foundation.wire.network import Network
from foundation.zk.admin_znodes import ProducerIdBlock
from foundation.zk.client import WatchFired
from foundation.zk.kafka_zk_client import ControllerMoved, Elected, KafkaZkClient, SessionLost, ZooKeeperFailure
from foundation.zk.znodes import MalformedZNode

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


class KafkaController:
    """
    Args:
        register: registers this broker in the session it is given and returns its broker epoch; called after a session
            was lost, before the broker joins the race again.
        random: for the ids of topics that were made without one.
        broken: told if the queue of events has broken, which nothing repairs but the end of the process. It is bound to
            happen when the event log cannot be written any more.
        features: what this broker has read of `/feature`; the broker keeps it up to date.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        settings: ControllerSettings,
        register: Callable[[KafkaZkClient], Awaitable[int]],
        network: Network,
        clock: Clock,
        random: random.Random,
        events: EventLog,
        fences: Fences,
        points: Points,
        broken: Callable[[BaseException], None],
        features: FinalizedFeatureCache,
    ) -> None:
        self.broker_id = broker_id
        self._settings = settings
        self._register = register
        self._network = network
        self._clock = clock
        self._random = random
        self._events = events
        self._fences = fences
        self._points = points
        self._features = features
        self._zk: KafkaZkClient | None = None
        self._is_registered = False
        self._term: Term | None = None
        self._next_race: asyncio.TimerHandle | None = None
        self._stats = ControllerStats(clock)
        self._census = Census()
        self._election = ControllerElection(
            broker_id, take_over=self._take_over, resign=self._resign, clock=clock, events=events, points=points
        )
        self._event_manager = ControllerEventManager(
            process=self._process_and_count,
            idle=self._record_idle,
            broken=broken,
            clock=clock,
            events=events,
            bound=settings.event_queue_bound,
            timers=self._stats.timers,
        )

    # ------------------------------------------------------------------ for the broker

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows.

        To find one's own id in `/controller` is not enough: it may be there from an earlier life (BUG-3).
        """
        return self._term is not None and self._election.is_active

    @property
    def active_controller_id(self) -> BrokerId:
        """Whom this broker takes for the controller; −1 for nobody."""
        return self._election.active_controller_id

    @property
    def epoch(self) -> int:
        """The controller epoch of the term in progress; 0 without one."""
        return 0 if self._term is None else self._term.context.epoch

    @property
    def assignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """What the controller remembers of where replicas belong; empty where this broker is none."""
        return {} if self._term is None else self._term.context.assignments

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Of a topic the controller knows, also of one that brokers have been told to forget; None where it is not."""
        return None if self._term is None else self._term.context.topic_names.get(topic_id)

    def startup(self, zk: KafkaZkClient) -> None:
        """Join the race. The broker is registered in this session."""
        self._zk, self._is_registered = zk, True
        self._event_manager.put(Startup())
        self._event_manager.start()

    def notified(self, notification: WatchFired) -> None:
        """A watch of the session has fired."""
        event = watches.event_of(notification)
        if event is not None:
            self._event_manager.put(event)

    async def expire(self) -> None:
        """The session is over. Returns when this broker has stopped being controller; only then may a new one be
        opened."""
        await self._event_manager.clear_and_put(Expire()).over()

    def session_opened(self, zk: KafkaZkClient) -> None:
        """A new session is open: register in it, then join the race again."""
        self._event_manager.put(RegisterBrokerAndReelect(zk))

    async def shutdown(self) -> None:
        """End: refuse what waits, finish the event in progress, see its orders delivered, drop the channels.

        `/controller` goes with the session.
        """
        await self._event_manager.close(timeout_ms=self._settings.close_timeout_ms)
        if self._term is not None:
            await self._term.channels.drain(timeout_ms=self._settings.drain_timeout_ms)
        self._resign("the broker is shutting down")

    # ------------------------------------------------------------------ for the handlers of requests

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        reply: Reply[AlterPartitionResponse] = Reply()
        self._event_manager.put(AlterPartitionReceived(request, version, reply))
        return await reply.wait()

    async def controlled_shutdown(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> tuple[Errors, tuple[TopicPartition, ...]]:
        """The error, and what the broker still leads though another replica could."""
        reply: Reply[tuple[Errors, tuple[TopicPartition, ...]]] = Reply()
        self._event_manager.put(ControlledShutdown(broker_id, broker_epoch, reply))
        return await reply.wait()

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
    ) -> LeaderElectionResults:
        """By partition the new leader, or why there is none. None asks for all partitions."""
        reply: Reply[LeaderElectionResults] = Reply()
        asked = None if partitions is None else tuple(partitions)
        self._event_manager.put(ReplicaLeaderElection(asked, election_type, ElectionTrigger.ADMIN_CLIENT, reply))
        return await reply.wait()

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> ReassignmentResults:
        """By partition its new replicas, or None to cancel. Answers when the moves have begun, not when data has
        moved."""
        reply: Reply[ReassignmentResults] = Reply()
        self._event_manager.put(ApiPartitionReassignment(reassignments, reply))
        return await reply.wait()

    async def list_partition_reassignments(self, partitions: Sequence[TopicPartition] | None) -> OngoingReassignments:
        """Those of `partitions` that are on the move; None asks for all."""
        reply: Reply[OngoingReassignments] = Reply()
        self._event_manager.put(ListPartitionReassignments(None if partitions is None else tuple(partitions), reply))
        return await reply.wait()

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock | ApiError:
        """The next block of producer ids, written down for that broker."""
        reply: Reply[ProducerIdBlock | ApiError] = Reply()
        self._event_manager.put(AllocateProducerIds(broker_id, broker_epoch, reply))
        return await reply.wait()

    async def update_features(self, updates: Sequence[FeatureUpdate]) -> FeatureUpdateResults:
        """By feature why it cannot be finalized."""
        reply: Reply[FeatureUpdateResults] = Reply()
        self._event_manager.put(UpdateFeatures(tuple(updates), reply))
        return await reply.wait()

    def unclean_leader_election_enabled(self) -> None:
        """The cluster's default has just come to allow it; only the controller cares."""
        self._event_manager.put(UncleanLeaderElectionEnable())

    def topic_unclean_leader_election_enabled(self, topic: str) -> None:
        """The config of `topic` has just come to allow it."""
        if self.is_active:
            self._event_manager.put(TopicUncleanLeaderElectionEnable(topic))

    # ------------------------------------------------------------------ for operators

    async def metrics(self) -> list[Reading]:
        """`controller_metrics.MBEANS` as they stand; in the middle of an event it may take a second."""
        events = self._event_manager
        counts = await self._census.counts(self._context, busy=events.is_busy)
        return [
            *role_readings(
                is_active=self.is_active,
                active_controller_id=self.active_controller_id,
                state=events.state,
                counts=counts,
            ),
            *self._stats.readings(),
            *event_queue_readings(len(events), events.queue_time),
            *channel_readings({} if self._term is None else self._term.channels.channels()),
        ]

    @property
    def _context(self) -> ControllerContext | None:
        return None if self._term is None else self._term.context

    # ------------------------------------------------------------------ events

    async def _process_and_count(self, event: ControllerEvent) -> str:
        outcome = await self._process(event)
        self._census.event_over(self._context)
        return outcome

    async def _process(self, event: ControllerEvent) -> str:
        """The one place that catches everything: an event may fail, the loop of events must not."""
        assert self._zk is not None, "startup comes first"
        try:
            return await self._dispatch(event, self._zk)
        except Exception as failure:  # noqa: BLE001  classified here and nowhere else
            electing = isinstance(event, ELECTING_EVENTS)
            fault = classify(failure, electing=electing)
            self._log_failure(fault, failure)
            refuse(event, fault.answer)
            await self._pay(fault, f"{name_of(event)} failed with {failure!r}", electing=electing)
            return fault.outcome

    async def _dispatch(self, event: ControllerEvent, zk: KafkaZkClient) -> str:
        """What every broker does; the rest is the controller's."""
        match event:
            case Startup() | Reelect():
                await self._election.maybe_resign(zk, "/controller is gone")
                await self._elect(zk)
            case ControllerChange():
                await self._election.maybe_resign(zk, "/controller changed")
                self._race_again_if_nobody_rules()
            case RegisterBrokerAndReelect():
                self._zk, self._is_registered = event.zk, False
                await self._register(event.zk)
                self._is_registered = True
                await self._election.maybe_resign(event.zk, "a new session")
                await self._elect(event.zk)
            case Expire():
                self._election.give_up("the ZooKeeper session expired")
            case ForcedResignation():
                if event.controller_epoch in (None, self.epoch):
                    await self._move(zk, event.why)
            case ShutdownEventThread():
                raise AssertionError("the event manager ends before it hands this event out")
            case _:
                return await self._dispatch_to_controller(event)
        return "done"

    async def _dispatch_to_controller(self, event: TermEvent) -> str:
        term = self._term
        if term is None:
            preempt(event)
            return "inactive"
        term.running = name_of(event)
        match event:
            case BrokerChange():
                await broker_lifecycle.process_broker_change(term)
            case BrokerModifications():
                await broker_lifecycle.process_broker_modifications(term, event.broker_id)
            case LogDirEventNotification():
                await broker_lifecycle.process_log_dir_event_notification(term)
            case TopicChange():
                await topic_changes.process_topic_change(term)
            case PartitionModifications():
                await topic_changes.process_partition_modifications(term, event.topic)
            case TopicDeletion():
                await topic_deletion.process_topic_deletion(term)
            case IsrChangeNotification():
                await isr_change_notification.process_isr_change_notification(term)
            case ZkPartitionReassignment():
                await partition_reassignment.process_zk_partition_reassignment(term)
            case PartitionReassignmentIsrChange():
                await partition_reassignment.process_partition_reassignment_isr_change(term, event.partition)
            case AutoPreferredReplicaLeaderElection():
                await auto_rebalance.process_auto_preferred_replica_leader_election(term, event)
            case UncleanLeaderElectionEnable():
                await unclean_election.process_unclean_leader_election_enable(term)
            case TopicUncleanLeaderElectionEnable():
                await unclean_election.process_topic_unclean_leader_election_enable(term, event.topic)
            case LeaderAndIsrResponseReceived():
                await broker_lifecycle.process_leader_and_isr_response(term, event)
            case UpdateMetadataResponseReceived():
                broker_lifecycle.process_update_metadata_response(event)
            case TopicDeletionStopReplicaResponseReceived():
                await topic_deletion.process_stop_replica_response(term, event)
            case ReplicaLeaderElection():
                await replica_leader_election.process_replica_leader_election(term, event)
            case AlterPartitionReceived():
                await alter_partition.process_alter_partition(term, event)
            case ControlledShutdown():
                await controlled_shutdown.process_controlled_shutdown(term, event)
            case ApiPartitionReassignment():
                await partition_reassignment.process_api_partition_reassignment(term, event)
            case ListPartitionReassignments():
                await partition_reassignment.process_list_partition_reassignments(term, event)
            case AllocateProducerIds():
                await producer_ids.process_allocate_producer_ids(term, event)
            case UpdateFeatures():
                features.process_update_features(term, event)
            case _:
                assert_never(event)
        return "done"

    def _log_failure(self, fault: Fault, failure: Exception) -> None:
        """A lost role or a refused client is everyday life; the rest comes with its story (LG-15)."""
        if isinstance(failure, ControllerMoved):
            log.info("controller moved to another broker when processing an event", why=str(failure))
        elif isinstance(failure, SessionLost | ApiError):
            log.info("event ended early", why=f"{type(failure).__name__}: {failure}")
        else:
            log.error("error processing event", cost=fault.cost.value, exc_info=failure)

    async def _pay(self, fault: Fault, why: str, *, electing: bool) -> None:
        """What a fault costs. Where ZooKeeper cannot be asked, not acting is the safe side."""
        assert self._zk is not None, "startup comes first"
        try:
            match fault.cost:
                case Cost.NOTHING:
                    pass
                case Cost.WAIT_FOR_EXPIRE:
                    if self._term is not None:
                        self._term.is_expiring = True
                case Cost.MAYBE_RESIGN:
                    await self._election.maybe_resign(self._zk, why)
                    self._race_again_if_nobody_rules()
                case Cost.MOVE_CONTROLLER:
                    if electing:
                        self._election.stand_aside()
                    await self._move(self._zk, why)
                case _:
                    assert_never(fault.cost)
        except (ControllerMoved, SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
            log.error("cannot find out who is controller", exc_info=failure)
            self._election.give_up(why)
            if not isinstance(failure, SessionLost):
                self._race_again_after(STANDS_ASIDE_MS)

    # ------------------------------------------------------------------ the race

    async def _elect(self, zk: KafkaZkClient) -> None:
        """A broker whose registration failed must not win: nobody else would know its address (BUG-5)."""
        if not self._is_registered:
            log.warning("not registered, so out of the race until the next session")
            return
        if self._names_us_in_vain:
            await zk.controller.delete_left_over()
        await self._election.elect(zk)
        self._race_again_if_nobody_rules()

    async def _move(self, zk: KafkaZkClient, why: str) -> None:
        epoch_zk_version = None if self._term is None else self._term.context.epoch_zk_version
        await self._election.trigger_controller_move(zk, epoch_zk_version, why)
        if self._names_us_in_vain:
            self._race_again_if_nobody_rules()

    @property
    def _names_us_in_vain(self) -> bool:
        """`/controller` is of an earlier life, or could not be given back: everybody waits for a controller that is
        none.

        One of an earlier life goes with its session. One of this session would stay as long as the broker lives, so it
        is deleted; in Kafka it stays.
        """
        return self._election.is_active and self._term is None

    def _race_again_if_nobody_rules(self) -> None:
        """Whoever was elected is gone again, perhaps before our watch was armed: then no watch will ever tell of its
        end.

        Kafka waits for the watch all the same; where every broker was disconnected at that moment, it waits for ever.
        """
        if self._names_us_in_vain:
            self._race_again_after(STANDS_ASIDE_MS)
        elif self._election.active_controller_id == NO_CONTROLLER:
            self._race_again_after(self._election.stands_aside_ms)

    def _race_again_after(self, wait_ms: float) -> None:
        """At most one race waits: each that still comes too early asks for the next, and without end they would
        multiply."""
        if wait_ms <= 0:
            self._event_manager.put(Reelect())
        elif self._next_race is None:
            # Not a fraction of a millisecond early, or it would have to wait once more.
            self._next_race = asyncio.get_running_loop().call_later(math.ceil(wait_ms) / 1000, self._race_now)

    def _race_now(self) -> None:
        self._next_race = None
        self._event_manager.put(Reelect())

    # ------------------------------------------------------------------ in and out of office

    async def _take_over(self, elected: Elected) -> None:
        assert self._zk is not None, "startup comes first"
        # In every line of the events of this term, and of the channels that they open.
        structlog.contextvars.bind_contextvars(controller_epoch=elected.epoch)
        self._term = Term(
            broker_id=self.broker_id,
            zk=self._zk,
            features=self._features,
            context=ControllerContext(epoch=elected.epoch, epoch_zk_version=elected.epoch_zk_version),
            channels=ControllerChannelManager(
                controller_id=self.broker_id,
                controller_epoch=elected.epoch,
                settings=self._settings,
                network=self._network,
                clock=self._clock,
                events=self._events,
                put=self._event_manager.put,
            ),
            settings=self._settings,
            clock=self._clock,
            events=self._events,
            fences=self._fences,
            points=self._points,
            put=self._event_manager.put,
            stats=self._stats,
            new_topic_id=lambda: random_topic_id(self._random),
            running="Failover",
        )
        await failover.on_controller_failover(self._term)

    def _resign(self, why: str) -> None:
        """RS-1. Needs nobody: the channels are dropped with what waits in them, the context is forgotten."""
        term, self._term = self._term, None
        if term is None:
            return
        auto_rebalance.cancel(term)
        term.channels.shutdown()
        self._events.append(ControllerResigned(epoch=term.context.epoch, why=why))
        log.info("resigned", controller_epoch=term.context.epoch, why=why)
        structlog.contextvars.unbind_contextvars("controller_epoch")

    def _record_idle(self) -> None:
        """For C6, when an event changed something; not for clusters so large that it would be felt."""
        term = self._term
        if term is None or term.is_expiring or term.changes_recorded == term.context.changes:
            return
        term.changes_recorded = term.context.changes
        if len(term.context.leadership) <= self._settings.digest_partitions:
            record = ContextAtIdle(
                epoch=term.context.epoch,
                live_brokers=tuple(term.context.live_broker_epochs.items()),
                leadership_digest=term.context.leadership_digest(),
            )
            self._events.append(record)
