"""The closed family of controller events: everything that can make the controller act. Mirrors `ControllerEvent`.

An event is a value. Those a client waits for carry a one-shot `Reply`; whoever takes such an event out of the queue
without processing it owes its client a refusal (`refuse`, `preempt`). Kafka answers only some of them (BUG-8); here
nobody waits in vain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from foundation.wire.messages.leader_and_isr import LeaderAndIsrResponse
from foundation.wire.messages.update_metadata import UpdateMetadataResponse
from foundation.zk.admin_znodes import ProducerIdBlock
from foundation.zk.kafka_zk_client import KafkaZkClient

T = TypeVar("T")


class Reply(Generic[T]):
    """A client's answer, given once; awaited by the handler of its request."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def resolve(self, answer: T) -> None:
        """Answer. Too late, or when the client has gone, it is nobody's loss."""
        if not self._answer.done():
            self._answer.set_result(answer)

    async def wait(self) -> T:
        return await self._answer


class ElectionType(Enum):
    """Mirrors `org.apache.kafka.common.ElectionType`; values are those on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


class ElectionTrigger(Enum):
    """Who asked for a leader election."""

    ZOOKEEPER = "ZkTriggered"
    ADMIN_CLIENT = "AdminClientTriggered"
    AUTO = "AutoTriggered"


LeaderElectionResults: TypeAlias = Mapping[TopicPartition, BrokerId | ApiError]
"""By partition the leader elected, or why there is none."""

NOT_THE_CONTROLLER = "This is not the correct controller for this cluster."

ReassignmentResults: TypeAlias = Mapping[TopicPartition, ApiError | None] | ApiError
"""By partition why its reassignment did not begin, None where it did; or why none was tried."""

OngoingReassignments: TypeAlias = Mapping[TopicPartition, ReplicaAssignment] | ApiError
"""The partitions on the move; or why nobody can say."""


class UpgradeType(Enum):
    """What a client allows to be done to a finalized feature; values are those on the wire. Mirrors its Kafka
    namesake."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """`upgrade_type` None is one that nobody knows."""

    feature: str
    level: int
    """The version to finalize; below 1 to delete the feature."""
    upgrade_type: UpgradeType | None

    @property
    def is_deletion(self) -> bool:
        return self.level < 1 and self.upgrade_type is not UpgradeType.UPGRADE


FeatureUpdateResults: TypeAlias = Mapping[str, ApiError] | ApiError
"""By feature why it cannot be finalized; or why none was looked at."""


# ------------------------------------------------------------------ the role


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker has started and joins the race."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """`/controller` was created or rewritten."""


@dataclass(frozen=True, slots=True)
class Reelect:
    """`/controller` is gone."""


@dataclass(frozen=True, slots=True)
class RegisterBrokerAndReelect:
    """A new session is open: register the broker again, then race."""

    zk: KafkaZkClient


@dataclass(frozen=True, slots=True)
class Expire:
    """The session is over, and with it the role."""


@dataclass(frozen=True, slots=True)
class ForcedResignation:
    """The controller must not go on: a bound was passed or something broke that must not break.

    `controller_epoch` is that of the term that cannot go on; None is whichever there is.
    """

    why: str
    controller_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ShutdownEventThread:
    """The last event."""


# ------------------------------------------------------------------ brokers and topics


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Children of `/brokers/ids` changed."""


@dataclass(frozen=True, slots=True)
class BrokerModifications:
    """A broker rewrote its registration."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class LogDirEventNotification:
    """A broker has announced that a log directory of its own failed."""


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Children of `/brokers/topics` changed."""


@dataclass(frozen=True, slots=True)
class PartitionModifications:
    """A topic's znode was rewritten."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Children of `/admin/delete_topics` changed."""


@dataclass(frozen=True, slots=True)
class IsrChangeNotification:
    """A leader that writes its ISR itself (before KIP-497) has announced changes."""


# ------------------------------------------------------------------ partitions on the move


@dataclass(frozen=True, slots=True)
class ZkPartitionReassignment:
    """`/admin/reassign_partitions` was created, or may have been created again unseen."""


@dataclass(frozen=True, slots=True)
class PartitionReassignmentIsrChange:
    """The state of a partition on the move was rewritten, by a leader that writes its ISR itself."""

    partition: TopicPartition


# ------------------------------------------------------------------ what time and configuration bring


@dataclass(frozen=True, slots=True)
class AutoPreferredReplicaLeaderElection:
    """It is time to look whether leaderships have drifted from their preferred replicas.

    `controller_epoch` is that of the term whose clock it was: a later term has a clock of its own.
    """

    controller_epoch: int


@dataclass(frozen=True, slots=True)
class UncleanLeaderElectionEnable:
    """The cluster's default now allows replicas outside the ISR to lead."""


@dataclass(frozen=True, slots=True)
class TopicUncleanLeaderElectionEnable:
    """A topic's config now allows replicas outside the ISR to lead."""

    topic: str


# ------------------------------------------------------------------ answers to control requests


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    """`controller_epoch` and `broker_epoch` are the request's: an answer to an earlier term or registration is void."""

    broker_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class UpdateMetadataResponseReceived:
    broker_id: BrokerId
    response: UpdateMetadataResponse


@dataclass(frozen=True, slots=True)
class TopicDeletionStopReplicaResponseReceived:
    """A broker's answer about replicas it was told to delete.

    `controller_epoch` and `broker_epoch` are the request's. `request_error` speaks for all of `partition_errors`, which
    holds the partitions that were to be deleted and no others.
    """

    broker_id: BrokerId
    controller_epoch: int
    broker_epoch: int
    request_error: Errors
    partition_errors: Mapping[TopicPartition, Errors]


# ------------------------------------------------------------------ requests


@dataclass(frozen=True, slots=True)
class ReplicaLeaderElection:
    """`partitions` None: those the znode names, or, for a client, all."""

    partitions: tuple[TopicPartition, ...] | None
    election_type: ElectionType
    trigger: ElectionTrigger
    reply: Reply[LeaderElectionResults] | None = None


@dataclass(frozen=True, slots=True)
class AlterPartitionReceived:
    request: AlterPartitionRequest
    version: int
    reply: Reply[AlterPartitionResponse]


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """`broker_epoch` −1 is a broker too old to know its own."""

    broker_id: BrokerId
    broker_epoch: int
    reply: Reply[tuple[Errors, tuple[TopicPartition, ...]]]


@dataclass(frozen=True, slots=True)
class ApiPartitionReassignment:
    """By partition its new replicas, or None to cancel what is under way."""

    reassignments: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    reply: Reply[ReassignmentResults]


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """`partitions` None: all."""

    partitions: tuple[TopicPartition, ...] | None
    reply: Reply[OngoingReassignments]


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    broker_id: BrokerId
    broker_epoch: int
    reply: Reply[ProducerIdBlock | ApiError]


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    updates: tuple[FeatureUpdate, ...]
    reply: Reply[FeatureUpdateResults]


RoleEvent: TypeAlias = (
    Startup | ControllerChange | Reelect | RegisterBrokerAndReelect | Expire | ForcedResignation | ShutdownEventThread
)
"""Events every broker processes."""

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
"""Events only the controller processes; elsewhere they are refused."""

ControllerEvent: TypeAlias = RoleEvent | TermEvent

ELECTING_EVENTS = (Startup, Reelect, RegisterBrokerAndReelect)
"""Events that may make this broker controller: whatever fails in them costs the role (EL-8)."""

INDISPENSABLE_EVENTS = (*ELECTING_EVENTS, Expire, ForcedResignation, ShutdownEventThread)
"""Events that survive an overflow of the queue, because nobody would put them again."""


def name_of(event: ControllerEvent) -> str:
    return type(event).__name__


def refuse(event: ControllerEvent, error: Errors) -> None:
    """Answer whoever waits for `event` with `error`, in the shape of that API."""
    match event:
        case AlterPartitionReceived():
            event.reply.resolve(AlterPartitionResponse(error_code=error))
        case ControlledShutdown():
            # Who is not controller says so in the words of a moved one (CS-5): the code this API's callers know.
            moved = error is Errors.NOT_CONTROLLER
            event.reply.resolve((Errors.STALE_CONTROLLER_EPOCH if moved else error, ()))
        case ReplicaLeaderElection() if event.reply is not None:
            event.reply.resolve(dict.fromkeys(event.partitions or (), ApiError(error, "")))
        case ApiPartitionReassignment() | ListPartitionReassignments() | AllocateProducerIds() | UpdateFeatures():
            event.reply.resolve(ApiError(error, NOT_THE_CONTROLLER if error is Errors.NOT_CONTROLLER else ""))
        case _:
            pass


def preempt(event: ControllerEvent) -> None:
    """Answer whoever waits for `event` that this broker is not the controller (EQ-6)."""
    refuse(event, Errors.NOT_CONTROLLER)
