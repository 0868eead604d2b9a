"""The event log's format, version 1: every record type by its name, and the envelope around it.

A line of the log is an `Envelope` around one payload. The payload's types are in `record_types`, by the component that
writes them. A cause on another node is found by matching `RequestReceived` (`client_id`, `correlation_id`) with that
node's `RequestSent`.

A released record type never changes its meaning: fields are only added, with a default. Partitions are written as
arrays, one record for a whole batch, because a failover of 10,000 partitions is one decision and not 10,000.

The record types are imported here to be exported, which `pyproject.toml` allows to this module.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from understudy.foundation.eventlog.record_types.base import (
    Leadership,
    Refused,
    Transition,
)
from understudy.foundation.eventlog.record_types.broker import (
    BrokerRecord,
    IsrProposed,
    IsrResult,
    LeaderAndIsrApplied,
    MetadataUpdated,
    StopReplicaApplied,
)
from understudy.foundation.eventlog.record_types.clients import (
    ClientConnection,
    ClientLogged,
    ClientRecord,
    ClientRequestBegan,
    ClientRequestEnded,
    MemberTransition,
)
from understudy.foundation.eventlog.record_types.controller import (
    BrokersChanged,
    ContextAtIdle,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerRecord,
    ControllerResigned,
    ElectionLost,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    InvalidTransition,
    LeadershipNotWritten,
    LeadershipWritten,
    PartitionsMoved,
    ReplicasMoved,
    TopicsChanged,
    leadership_digest,
)
from understudy.foundation.eventlog.record_types.experiments import (
    AlignedClock,
    AnswerInjected,
    ExperimentRecord,
    FaultInjected,
    FenceHit,
    LostStretch,
    PointReached,
    RunDescribed,
    StepReached,
)
from understudy.foundation.eventlog.record_types.groups import (
    AssignedMember,
    CoordinatorRecord,
    GroupAssigned,
    GroupOffset,
    GroupsLoaded,
    GroupsUnloaded,
    GroupTransition,
    OffsetsCommitted,
    OffsetsRemoved,
)
from understudy.foundation.eventlog.record_types.process import (
    BrokerRegistered,
    ConnectionRefused,
    LogSeen,
    ProcessExiting,
    ProcessRecord,
    ProcessStarted,
    SessionExpiredRecord,
    SessionOpened,
    SessionResumedRecord,
    SessionSuspendedRecord,
    StillRunning,
    TaskFailed,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
from understudy.foundation.eventlog.record_types.quorum import (
    Assignment,
    BecameCandidate,
    PartitionsAssigned,
    QuorumRecord,
)
from understudy.foundation.eventlog.record_types.replication import (
    HighWatermarkChanged,
    LeaderStarted,
    LogCleaned,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
    ReplicationRecord,
)
from understudy.foundation.eventlog.record_types.requests import (
    ChannelClosed,
    ChannelOpened,
    RequestDetail,
    RequestFailed,
    RequestQueued,
    RequestReceived,
    RequestRecord,
    RequestSent,
    ResponseReceived,
    ResponseSent,
)

RECORD_VERSION = 1

Payload: TypeAlias = (
    ProcessRecord
    | ControllerRecord
    | RequestRecord
    | BrokerRecord
    | ReplicationRecord
    | CoordinatorRecord
    | ExperimentRecord
    | ClientRecord
    | QuorumRecord
)


def _name_of(payload_type: type[Payload]) -> str:
    return payload_type.__name__.removesuffix("Record")


PAYLOAD_BY_TYPE: dict[str, type[Payload]] = {_name_of(payload_type): payload_type for payload_type in Payload.__args__}
"""Every record type by its name in the `type` field of a line: the class's name without the suffix `Record`, which
distinguishes some of these classes from the ZooKeeper client's notifications."""

FORMER_TYPE_NAMES: dict[str, str] = {"FaultStruck": "FaultInjected", "LeaderElectionFailed": "LeadershipNotWritten"}
"""Names that version 0.1.0 wrote into the `type` field, with the names that replaced them. Readers accept both."""

_TYPE_NAMES = {payload_type: name for name, payload_type in PAYLOAD_BY_TYPE.items()}


def type_name(payload: Payload) -> str:
    """Return the name of the record type, as written into the `type` field of a line."""
    return _TYPE_NAMES[type(payload)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the event log: a payload, and who wrote it when and why. Written by `EventLog.append`."""

    version: int
    """The version of this format: 1."""
    run: str
    """Id of the run; all its nodes share it."""
    node: str
    """Name of the node that wrote the record, for example `broker-1`."""
    incarnation: int
    """How often this node has started in this run, from 1."""
    seq: int
    """Numbers the records of this incarnation, from 1 and without gaps."""
    mono_ms: float
    """The monotonic clock in milliseconds; comparable between processes whose `ProcessStarted` has the same `boot`."""
    wall_ms: float
    """The wall clock: milliseconds since 1970-01-01 UTC."""
    type: str
    """The name of the record type."""
    cause: int | None
    """The `seq` of the record of this incarnation that led to this one; null if there is none."""
    zxid: int
    """The newest ZooKeeper transaction that an answer to this node reflected; 0 before the first."""
    controller_epoch: int
    """The newest controller epoch that this node had seen; 0 before the first."""
    data: Payload
    """The payload: the fields of the record type."""
