"""`KafkaController`: dispatches controller events to procedures, and starts and ends terms. Mirrors its Kafka namesake.

Every broker has one. It takes part in controller elections; while it is controller it has a `Term`, and everything it
does happens inside an event. The procedures are in modules of their own.

    role          Startup, ControllerChange, Reelect, RegisterBrokerAndReelect, Expire, ForcedResignation
    cluster       BrokerChange, BrokerModifications, LogDirEventNotification, IsrChangeNotification,
                  TopicChange, PartitionModifications, TopicDeletion,
                  ZkPartitionReassignment, PartitionReassignmentIsrChange
    responses     LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived, TopicDeletionStopReplicaResponseReceived
    requests      AlterPartitionReceived, ControlledShutdown, ReplicaLeaderElection, ApiPartitionReassignment,
                  ListPartitionReassignments, AllocateProducerIds, UpdateFeatures
    timer, config AutoPreferredReplicaLeaderElection, UncleanLeaderElectionEnable, TopicUncleanLeaderElectionEnable
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar, assert_never

import structlog

from understudy.controller import (
    auto_rebalance,
    failover,
    watches,
)
from understudy.controller.channels.channel_manager import ControllerChannelManager
from understudy.controller.context import ControllerContext
from understudy.controller.controller_election import ELECTION_BACKOFF_MS, NO_CONTROLLER, ControllerElection
from understudy.controller.controller_metrics import (
    ClusterCounts,
    ControllerStats,
    channel_readings,
    event_queue_readings,
    role_readings,
)
from understudy.controller.event_manager import ControllerEventManager
from understudy.controller.events import (
    ELECTING_EVENTS,
    AllocateProducerIds,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    ControlledShutdown,
    ControllerChange,
    ControllerEvent,
    ElectionTrigger,
    ElectionType,
    Expire,
    FeatureUpdate,
    FeatureUpdateResults,
    ForcedResignation,
    LeaderElectionResults,
    ListPartitionReassignments,
    OngoingReassignments,
    ReassignmentResults,
    Reelect,
    RegisterBrokerAndReelect,
    ReplicaLeaderElection,
    Reply,
    ShutdownEventThread,
    Startup,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
    UpdateFeatures,
    name_of,
    preempt,
    refuse,
)
from understudy.controller.failure_classes import Consequence, FailureClass, classify
from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.controller.settings import ControllerSettings
from understudy.controller.term import Term
from understudy.controller.term_events import process_term_event
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition, random_topic_id
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.points import Points
from understudy.foundation.eventlog.records import ContextAtIdle, ControllerResigned
from understudy.foundation.metrics.mbeans import MetricReading
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from understudy.foundation.wire.network import Network
from understudy.foundation.zk.admin_znodes import ProducerIdBlock
from understudy.foundation.zk.client import WatchFired
from understudy.foundation.zk.kafka_zk_client import (
    ControllerMoved,
    Elected,
    KafkaZkClient,
    SessionLost,
    ZooKeeperFailure,
)
from understudy.foundation.zk.znodes import MalformedZNode

T = TypeVar("T")

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


class KafkaController:
    """The controller of one broker, active or not.

    Args:
        register: registers this broker in the given session and returns its broker epoch; called after a session has
            expired, before the next election.
        random: for the ids of topics that were created without one.
        broken: called if the event task has ended by an exception, so that only a restart of the process helps. This
            happens when the event log cannot be written any more.
        features: the finalized features that this broker has read from `/feature`; the broker keeps them up to date.
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
        self._former_context: ControllerContext | None = None
        """The memory of the last term, if an experiment has a controller keep it."""
        self._next_election: asyncio.TimerHandle | None = None
        self._stats = ControllerStats(clock)
        self._counts = ClusterCounts()
        self._election = ControllerElection(
            broker_id, take_over=self._take_over, resign=self._resign, clock=clock, events=events, points=points
        )
        self._event_manager = ControllerEventManager(
            process=self._process,
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

        `/controller` naming this broker is not enough: its znode may be left over from an earlier process (BUG-3).
        """
        return self._term is not None and self._election.is_active

    @property
    def active_controller_id(self) -> BrokerId:
        """The id of the controller as this broker knows it; −1 if it knows of none."""
        return self._election.active_controller_id

    @property
    def epoch(self) -> int:
        """The controller epoch of the term in progress; 0 without one."""
        return 0 if self._term is None else self._term.context.epoch

    @property
    def assignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """The replica assignments in the controller's memory; empty if this broker is not controller."""
        return {} if self._term is None else self._term.context.assignments

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic in the controller's memory, also of one being deleted; None if it is unknown."""
        return None if self._term is None else self._term.context.topic_names.get(topic_id)

    def startup(self, zk: KafkaZkClient) -> None:
        """Take part in elections from now on. The broker is registered in this session."""
        self._zk, self._is_registered = zk, True
        self._event_manager.put(Startup())
        self._event_manager.start()

    def notified(self, notification: WatchFired) -> None:
        """Queue the event for a watch that has fired."""
        event = watches.event_of(notification)
        if event is not None:
            self._event_manager.put(event)

    async def expire(self) -> None:
        """End the term because the session has expired. Returns when it has ended; only then may a new session be
        opened."""
        await self._event_manager.clear_and_put(Expire()).over()

    def session_opened(self, zk: KafkaZkClient) -> None:
        """Register in the new session, then take part in elections again."""
        self._event_manager.put(RegisterBrokerAndReelect(zk))

    async def shutdown(self) -> None:
        """Refuse the waiting events, finish the event in progress, wait for responses to its requests, and close the
        channels.

        `/controller` is deleted with the session.
        """
        await self._event_manager.close(timeout_ms=self._settings.close_timeout_ms)
        if self._term is not None:
            await self._term.channels.drain(timeout_ms=self._settings.drain_timeout_ms)
        self._resign("the broker is shutting down")

    # ------------------------------------------------------------------ for the handlers of requests

    async def alter_partition(self, request: AlterPartitionRequest, version: int) -> AlterPartitionResponse:
        return await self._answered(lambda reply: AlterPartitionReceived(request, version, reply))

    async def controlled_shutdown(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> tuple[Errors, tuple[TopicPartition, ...]]:
        """Return the error, and the partitions that the broker still leads although another replica could."""
        return await self._answered(lambda reply: ControlledShutdown(broker_id, broker_epoch, reply))

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, election_type: ElectionType
    ) -> LeaderElectionResults:
        """Return for each partition its new leader, or why none was elected. `partitions` None stands for all."""
        asked = None if partitions is None else tuple(partitions)
        return await self._answered(
            lambda reply: ReplicaLeaderElection(asked, election_type, ElectionTrigger.ADMIN_CLIENT, reply)
        )

    async def alter_partition_reassignments(
        self, reassignments: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> ReassignmentResults:
        """Start moving partitions to new replicas, or cancel (None). Returns when the reassignments have started, not
        when they are complete."""
        return await self._answered(lambda reply: ApiPartitionReassignment(reassignments, reply))

    async def list_partition_reassignments(self, partitions: Sequence[TopicPartition] | None) -> OngoingReassignments:
        """Return which of `partitions` are being reassigned; None stands for all."""
        return await self._answered(
            lambda reply: ListPartitionReassignments(None if partitions is None else tuple(partitions), reply)
        )

    async def allocate_producer_ids(self, broker_id: BrokerId, broker_epoch: int) -> ProducerIdBlock | ApiError:
        """Return the next block of producer ids, written in ZooKeeper for this broker."""
        return await self._answered(lambda reply: AllocateProducerIds(broker_id, broker_epoch, reply))

    async def update_features(self, updates: Sequence[FeatureUpdate]) -> FeatureUpdateResults:
        """Return for each feature why it cannot be finalized."""
        return await self._answered(lambda reply: UpdateFeatures(tuple(updates), reply))

    async def _answered(self, event_with: Callable[[Reply[T]], ControllerEvent]) -> T:
        """Queue an event with a reply, and wait for the response."""
        reply: Reply[T] = Reply()
        self._event_manager.put(event_with(reply))
        return await reply.wait()

    def unclean_leader_election_enabled(self) -> None:
        """The cluster's default now allows unclean elections; only the active controller acts on it."""
        self._event_manager.put(UncleanLeaderElectionEnable())

    def topic_unclean_leader_election_enabled(self, topic: str) -> None:
        """The config of `topic` now allows unclean elections."""
        if self.is_active:
            self._event_manager.put(TopicUncleanLeaderElectionEnable(topic))

    # ------------------------------------------------------------------ for operators

    async def metrics(self) -> list[MetricReading]:
        """Return the current values of `controller_metrics.MBEANS`. While an event is in progress this may take a
        second."""
        events = self._event_manager
        counts = await self._counts.counts(self._context, busy=events.is_busy)
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

    async def _process(self, event: ControllerEvent) -> str:
        """Process an event and return its outcome. Catches every exception, because the event task must not end.

        The events of the role are for every broker; the others are for the active controller alone.
        """
        assert self._zk is not None, "startup comes first"
        outcome = "done"
        try:
            match event:
                case Startup() | Reelect():
                    await self._election.maybe_resign(self._zk, "/controller is gone")
                    await self._elect(self._zk)
                case ControllerChange():
                    await self._election.maybe_resign(self._zk, "/controller changed")
                    self._elect_again_if_no_controller()
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
                        await self._move(self._zk, event.why)
                case ShutdownEventThread():
                    raise AssertionError("the event manager processes this event itself")
                case _:
                    if (term := self._term) is None:
                        preempt(event)
                        outcome = "inactive"
                    else:
                        term.running = name_of(event)
                        await process_term_event(term, event)
        except Exception as failure:  # noqa: BLE001  classified here and nowhere else
            found = classify(failure, electing=isinstance(event, ELECTING_EVENTS))
            self._log_failure(found, failure)
            refuse(event, found.answer)
            await self._handle_failure(event, found, f"{name_of(event)} failed with {failure!r}")
            outcome = found.outcome
        if self._term is not None:
            self._term.last_update_metadata.forget()
        self._counts.event_over(self._context)
        return outcome

    def _log_failure(self, found: FailureClass, failure: Exception) -> None:
        """Log a lost role or a refused request as information, any other exception with its traceback (LG-15)."""
        if isinstance(failure, ControllerMoved):
            log.info("controller moved to another broker when processing an event", why=str(failure))
        elif isinstance(failure, SessionLost | ApiError):
            log.info("event ended early", why=f"{type(failure).__name__}: {failure}")
        else:
            log.error("error processing event", consequence=found.consequence.value, exc_info=failure)

    async def _handle_failure(self, event: ControllerEvent, found: FailureClass, why: str) -> None:
        """Do what follows from an exception. If ZooKeeper cannot be asked the broker resigns, which is always safe."""
        assert self._zk is not None, "startup comes first"
        try:
            match found.consequence:
                case Consequence.NOTHING:
                    pass
                case Consequence.WAIT_FOR_EXPIRE:
                    if self._term is not None:
                        self._term.is_expiring = True
                case Consequence.MAYBE_RESIGN:
                    await self._election.maybe_resign(self._zk, why)
                    self._elect_again_if_no_controller()
                case Consequence.MOVE_CONTROLLER:
                    if isinstance(event, ELECTING_EVENTS):
                        self._election.back_off()
                    await self._move(self._zk, why)
                case _:
                    assert_never(found.consequence)
        except (ControllerMoved, SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
            log.error("cannot read which broker is controller", exc_info=failure)
            self._election.give_up(why)
            if not isinstance(failure, SessionLost):
                self._elect_again_after(ELECTION_BACKOFF_MS)

    # ------------------------------------------------------------------ the election

    async def _elect(self, zk: KafkaZkClient) -> None:
        """Take part in the election, unless registration failed: the other brokers would not know the new controller's
        address (BUG-5)."""
        if not self._is_registered:
            log.warning("not registered, so not electable until the next session")
            return
        if self._is_registered_without_term:
            await zk.controller.delete_left_over()
        await self._election.elect(zk)
        self._elect_again_if_no_controller()

    async def _move(self, zk: KafkaZkClient, why: str) -> None:
        epoch_zk_version = None if self._term is None else self._term.context.epoch_zk_version
        await self._election.trigger_controller_move(zk, epoch_zk_version, why)
        if self._is_registered_without_term:
            self._elect_again_if_no_controller()

    @property
    def _is_registered_without_term(self) -> bool:
        """Whether `/controller` names this broker although it has no term, so that the cluster waits for a controller
        that does nothing.

        The znode is left over from an earlier process, or could not be deleted at resignation. One of an earlier
        session expires with it; one of this session is deleted here, while Kafka leaves it there as long as the broker
        runs.
        """
        return self._election.is_active and self._term is None

    def _elect_again_if_no_controller(self) -> None:
        """Queue another election if the elected broker is gone again: its znode may have been deleted before our watch
        was armed, and then no watch fires.

        Kafka waits for the watch; if every broker was disconnected at that moment, it waits for ever.
        """
        if self._is_registered_without_term:
            self._elect_again_after(ELECTION_BACKOFF_MS)
        elif self._election.active_controller_id == NO_CONTROLLER:
            self._elect_again_after(self._election.backoff_ms)

    def _elect_again_after(self, wait_ms: float) -> None:
        """Queue an election in `wait_ms`, unless one is queued already: else elections that come too early would
        multiply."""
        if wait_ms <= 0:
            self._event_manager.put(Reelect())
        elif self._next_election is None:
            # Not a fraction of a millisecond early, or it would have to wait once more.
            self._next_election = asyncio.get_running_loop().call_later(math.ceil(wait_ms) / 1000, self._elect_now)

    def _elect_now(self) -> None:
        self._next_election = None
        self._event_manager.put(Reelect())

    # ------------------------------------------------------------------ terms

    async def _take_over(self, elected: Elected) -> None:
        assert self._zk is not None, "startup comes first"
        # In every line of the events of this term, and of the channels that they open.
        structlog.contextvars.bind_contextvars(controller_epoch=elected.epoch)
        self._term = Term(
            broker_id=self.broker_id,
            zk=self._zk,
            features=self._features,
            context=self._context_for(elected),
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

    def _context_for(self, elected: Elected) -> ControllerContext:
        context, self._former_context = self._former_context or ControllerContext(), None
        context.epoch, context.epoch_zk_version = elected.epoch, elected.epoch_zk_version
        return context

    def _resign(self, why: str) -> None:
        """End the term in progress: close its channels, drop their requests and forget the context (RS-1)."""
        term, self._term = self._term, None
        if term is None:
            return
        auto_rebalance.cancel(term)
        term.channels.shutdown()
        if not self._fences.rules.resignation_clears_context.holds_for(f"resignation of epoch {term.context.epoch}"):
            self._former_context = term.context
        self._events.append(ControllerResigned(epoch=term.context.epoch, why=why))
        log.info("resigned", controller_epoch=term.context.epoch, why=why)
        structlog.contextvars.unbind_contextvars("controller_epoch")

    def _record_idle(self) -> None:
        """Record the context after an event that changed it, for check C6; not in clusters where computing the digest
        takes long."""
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
