"""Chooses which records the transcripts of the stories show, and in which words.

They cover what matters in a controller failover: faults, elections, and the leaders and ISRs that are decided, written,
sent, applied and refused. The event queue, state transitions, logs and responses without errors are left out.
"""

from __future__ import annotations

from understudy.foundation.eventlog.records import (
    ChannelClosed,
    ChannelOpened,
    ConnectionRefused,
    Envelope,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    HighWatermarkChanged,
    LeaderAndIsrApplied,
    LeaderStarted,
    LogCleaned,
    LogOpened,
    LogTruncated,
    PartitionsMoved,
    ProcessStarted,
    RecordsAcknowledged,
    RecordsAppended,
    ReplicasMoved,
    RequestFailed,
    RequestQueued,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
    StillRunning,
    StopReplicaApplied,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.narrator import describe

_OMITTED_TYPES = (
    ChannelClosed,
    ChannelOpened,
    ConnectionRefused,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    HighWatermarkChanged,
    LeaderStarted,
    LogCleaned,
    LogOpened,
    LogTruncated,
    PartitionsMoved,
    ProcessStarted,
    RecordsAcknowledged,
    RecordsAppended,
    ReplicasMoved,
    RequestQueued,
    RequestReceived,
    ResponseSent,
    RunDescribed,
    StillRunning,
    ZkWrite,
)
_OMITTED_APIS = ("Fetch", "UpdateMetadata")


def story_sentence(record: Envelope) -> str | None:
    """Return the sentence of a record; None for one that a transcript leaves out."""
    return None if _is_omitted(record) else describe(record)


def _is_omitted(record: Envelope) -> bool:
    match record.data:
        case LeaderAndIsrApplied(leaders=leaders, followers=followers):
            return not leaders and not followers
        case StopReplicaApplied(partitions=partitions):
            return not partitions
        case ZkWriteDone(outcome=outcome):
            return outcome != "Unknown"
        case RequestSent(api=api) | RequestFailed(api=api):
            return api in _OMITTED_APIS
        case ResponseReceived(error=error):
            return error == "NONE"
        case data:
            return isinstance(data, _OMITTED_TYPES)
