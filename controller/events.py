"""The controller events: everything that can make the controller act. Mirrors `ControllerEvent`.

An event is a value. One with a client waiting carries a `Reply`, which is resolved exactly once: by the procedure, by
`refuse` or by `preempt`. Kafka leaves some clients without a response (BUG-8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from understudy.controller.controller_state import ControllerState
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataResponse
from understudy.foundation.zk.admin_znodes import ProducerIdBlock
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient

T = TypeVar("T")


class Reply(Generic[T]):
    """The response to a client, given once, and awaited by the handler of its request."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def resolve(self, answer: T) -> None:
        """Give the response. A second one, or one after the client has gone, is ignored."""
        if not self._answer.done():
            self._answer.set_result(answer)

    async def wait(self) -> T:
        return await self._answer


class ElectionType(Enum):
    """Mirrors `org.apache.kafka.common.ElectionType`; values are those on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionTrigger(Enum):
    """What has requested a leader election."""

    ZOOKEEPER = "ZkTriggered"
    ADMIN_CLIENT = "AdminClientTriggered"
    AUTO = "AutoTriggered"


LeaderElectionResults: TypeAlias = Mapping[TopicPartition, BrokerId | ApiError]
"""By partition the new leader, or why none was elected."""

NOT_THE_CONTROLLER = "This is not the correct controller for this cluster."

ReassignmentResults: TypeAlias = Mapping[TopicPartition, ApiError | None] | ApiError
"""By partition why its reassignment did not start, None if it did; or why none was tried."""

OngoingReassignments: TypeAlias = Mapping[TopicPartition, ReplicaAssignment] | ApiError
"""The assignments of the partitions that are being reassigned; or why they are not known."""


class UpgradeType(Enum):
    """What a client allows to be done to a finalized feature; values are those on the wire. Mirrors its Kafka
    namesake."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """An update of one finalized feature. `upgrade_type` None is an unknown one."""

    feature: str
    level: int
    """The version to finalize; below 1 to delete the feature."""
    upgrade_type: UpgradeType | None

    @property
    def is_deletion(self) -> bool:
        return self.level < 1 and self.upgrade_type is not UpgradeType.UPGRADE


FeatureUpdateResults: TypeAlias = Mapping[str, ApiError] | ApiError
"""By feature why it cannot be finalized; or why none was tried."""


# ------------------------------------------------------------------ the role


class Startup(msgspec.Struct, frozen=True):
    """The broker has started and takes part in elections."""

    state = ControllerState.CONTROLLER_CHANGE


class ControllerChange(msgspec.Struct, frozen=True):
    """`/controller` was created or rewritten."""

    state = ControllerState.CONTROLLER_CHANGE


class Reelect(msgspec.Struct, frozen=True):
    """`/controller` is gone."""

    state = ControllerState.CONTROLLER_CHANGE


class RegisterBrokerAndReelect(msgspec.Struct, frozen=True):
    """A new session is open: register the broker again, then take part in the election."""

    state = ControllerState.CONTROLLER_CHANGE
    zk: KafkaZkClient


class Expire(msgspec.Struct, frozen=True):
    """The session has expired, and with it the role."""

    state = ControllerState.CONTROLLER_CHANGE


class ForcedResignation(msgspec.Struct, frozen=True):
    """The controller must resign, because a bound was exceeded or an essential task has failed.

    `controller_epoch` names the term that must end; None stands for the current one.
    """

    state = ControllerState.CONTROLLER_CHANGE
    why: str
    controller_epoch: int | None = None


class ShutdownEventThread(msgspec.Struct, frozen=True):
    """The last event: it ends the task."""

    state = ControllerState.CONTROLLER_SHUTDOWN


# ------------------------------------------------------------------ brokers and topics


class BrokerChange(msgspec.Struct, frozen=True):
    """The children of `/brokers/ids` changed."""

    state = ControllerState.BROKER_CHANGE


class BrokerModifications(msgspec.Struct, frozen=True):
    """A broker rewrote its registration."""

    state = ControllerState.BROKER_CHANGE
    broker_id: BrokerId


class LogDirEventNotification(msgspec.Struct, frozen=True):
    """A broker has announced that one of its log directories failed."""

    state = ControllerState.LOG_DIR_CHANGE


class TopicChange(msgspec.Struct, frozen=True):
    """The children of `/brokers/topics` changed."""

    state = ControllerState.TOPIC_CHANGE


class PartitionModifications(msgspec.Struct, frozen=True):
    """A topic's znode was rewritten."""

    state = ControllerState.TOPIC_CHANGE
    topic: str


class TopicDeletion(msgspec.Struct, frozen=True):
    """The children of `/admin/delete_topics` changed."""

    state = ControllerState.TOPIC_DELETION


class IsrChangeNotification(msgspec.Struct, frozen=True):
    """A leader that writes its ISR itself (before KIP-497) has announced changes."""

    state = ControllerState.ISR_CHANGE


# ------------------------------------------------------------------ reassignments


class ZkPartitionReassignment(msgspec.Struct, frozen=True):
    """`/admin/reassign_partitions` was created, or may have been created while no watch was armed."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT


class PartitionReassignmentIsrChange(msgspec.Struct, frozen=True):
    """A leader that writes its ISR itself has rewritten the state of a partition that is being reassigned."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT
    partition: TopicPartition


# ------------------------------------------------------------------ timer and configuration


class AutoPreferredReplicaLeaderElection(msgspec.Struct, frozen=True):
    """The timer for the check of leader imbalance has fired.

    `controller_epoch` names the timer's term; a later term has a timer of its own.
    """

    state = ControllerState.AUTO_LEADER_BALANCE
    controller_epoch: int


class UncleanLeaderElectionEnable(msgspec.Struct, frozen=True):
    """The cluster's default now allows unclean leader election."""

    state = ControllerState.UNCLEAN_LEADER_ELECTION_ENABLE


class TopicUncleanLeaderElectionEnable(msgspec.Struct, frozen=True):
    """A topic's config now allows unclean leader election."""

    state = ControllerState.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
    topic: str


# ------------------------------------------------------------------ responses to control requests


class LeaderAndIsrResponseReceived(msgspec.Struct, frozen=True):
    """A response to LeaderAndIsr. `controller_epoch` and `broker_epoch` are the request's: one of an earlier term or
    registration is ignored."""

    state = ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED
    broker_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    response: LeaderAndIsrResponse


class UpdateMetadataResponseReceived(msgspec.Struct, frozen=True):
    """A response to UpdateMetadata."""

    state = ControllerState.UPDATE_METADATA_RESPONSE_RECEIVED
    broker_id: BrokerId
    response: UpdateMetadataResponse


class TopicDeletionStopReplicaResponseReceived(msgspec.Struct, frozen=True):
    """A response to StopReplica about replicas to be deleted.

    `controller_epoch` and `broker_epoch` are the request's. `request_error` is the error code of the whole response and
    applies to all of `partition_errors`, which holds the partitions to be deleted and no others.
    """

    state = ControllerState.TOPIC_DELETION
    broker_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    request_error: int
    partition_errors: Mapping[TopicPartition, Errors]


# ------------------------------------------------------------------ requests


class ReplicaLeaderElection(msgspec.Struct, frozen=True):
    """A leader election was requested. `partitions` None stands for those in the znode or, from a client, for all."""

    state = ControllerState.MANUAL_LEADER_BALANCE
    partitions: tuple[TopicPartition, ...] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    reply: Reply[LeaderElectionResults] | None = None


class AlterPartitionReceived(msgspec.Struct, frozen=True):
    """A leader proposes new ISRs."""

    state = ControllerState.ISR_CHANGE
    request: AlterPartitionRequest
    version: int
    reply: Reply[AlterPartitionResponse]


class ControlledShutdown(msgspec.Struct, frozen=True):
    """A broker asks to shut down. `broker_epoch` −1 comes from a broker too old to know its own."""

    state = ControllerState.CONTROLLED_SHUTDOWN
    broker_id: BrokerId
    broker_epoch: int
    reply: Reply[tuple[Errors, tuple[TopicPartition, ...]]]


class ApiPartitionReassignment(msgspec.Struct, frozen=True):
    """A client requests reassignments: by partition the new replicas, or None to cancel."""

    state = ControllerState.ALTER_PARTITION_REASSIGNMENT
    reassignments: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    reply: Reply[ReassignmentResults]


class ListPartitionReassignments(msgspec.Struct, frozen=True):
    """A client asks for the reassignments in progress. `partitions` None stands for all."""

    state = ControllerState.LIST_PARTITION_REASSIGNMENT
    partitions: tuple[TopicPartition, ...] | None
    reply: Reply[OngoingReassignments]


class AllocateProducerIds(msgspec.Struct, frozen=True):
    """A broker asks for a block of producer ids."""

    # As in Kafka, which has no state of its own for this event.
    state = ControllerState.IDLE
    broker_id: BrokerId
    broker_epoch: int
    reply: Reply[ProducerIdBlock | ApiError]


class UpdateFeatures(msgspec.Struct, frozen=True):
    """A client requests updates of finalized features."""

    state = ControllerState.UPDATE_FEATURES
    updates: tuple[FeatureUpdate, ...]
    reply: Reply[FeatureUpdateResults]


RoleEvent: TypeAlias = (
    Startup | ControllerChange | Reelect | RegisterBrokerAndReelect | Expire | ForcedResignation | ShutdownEventThread
)
"""Events that every broker processes."""

TermEvent: TypeAlias = (
    BrokerChange
    | BrokerModifications
    | LogDirEventNotification
    | TopicChange
    | PartitionModifications
    | TopicDeletion
    | IsrChangeNotification
    | ZkPartitionReassignment
    | PartitionReassignmentIsrChange
    | AutoPreferredReplicaLeaderElection
    | UncleanLeaderElectionEnable
    | TopicUncleanLeaderElectionEnable
    | LeaderAndIsrResponseReceived
    | UpdateMetadataResponseReceived
    | TopicDeletionStopReplicaResponseReceived
    | ReplicaLeaderElection
    | AlterPartitionReceived
    | ControlledShutdown
    | ApiPartitionReassignment
    | ListPartitionReassignments
    | AllocateProducerIds
    | UpdateFeatures
)
"""Events that only the active controller processes; elsewhere they are refused."""

ControllerEvent: TypeAlias = RoleEvent | TermEvent

ELECTING_EVENTS = (Startup, Reelect, RegisterBrokerAndReelect)
"""Events that may make this broker controller: an exception in one of them costs the role (EL-8)."""

INDISPENSABLE_EVENTS = (*ELECTING_EVENTS, Expire, ForcedResignation, ShutdownEventThread)
"""Events that survive an overflow of the queue, because they would not be queued again."""


def name_of(event: ControllerEvent) -> str:
    return type(event).__name__


def refuse(event: ControllerEvent, error: Errors) -> None:
    """Respond to the client that waits for `event` with `error`, in the form of that API."""
    match event:
        case AlterPartitionReceived():
            event.reply.resolve(AlterPartitionResponse(error_code=error))
        case ControlledShutdown():
            # Kafka's brokers expect STALE_CONTROLLER_EPOCH here (CS-5).
            moved = error is Errors.NOT_CONTROLLER
            event.reply.resolve((Errors.STALE_CONTROLLER_EPOCH if moved else error, ()))
        case ReplicaLeaderElection() if event.reply is not None:
            event.reply.resolve(dict.fromkeys(event.partitions or (), ApiError(error, "")))
        case ApiPartitionReassignment() | ListPartitionReassignments() | AllocateProducerIds() | UpdateFeatures():
            event.reply.resolve(ApiError(error, NOT_THE_CONTROLLER if error is Errors.NOT_CONTROLLER else ""))
        case _:
            pass


def preempt(event: ControllerEvent) -> None:
    """Respond to the client that waits for `event` that this broker is not the controller (EQ-6)."""
    refuse(event, Errors.NOT_CONTROLLER)
