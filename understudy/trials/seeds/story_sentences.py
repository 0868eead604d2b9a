"""Chooses which records the transcripts of the stories show, and in which words.

They cover what matters in a controller failover: faults, elections, and the leaders and ISRs that are decided, written,
sent, applied and refused. The event queue, state transitions, logs and responses without errors are left out.
"""

from __future__ import annotations

from understudy.foundation.eventlog import records
from understudy.foundation.eventlog.records import Envelope
from understudy.history.narrator import describe

_OMITTED_TYPES = (
    records.ChannelClosed,
    records.ChannelOpened,
    records.ConnectionRefused,
    records.EventEnded,
    records.EventPreempted,
    records.EventQueued,
    records.EventStarted,
    records.HighWatermarkChanged,
    records.LeaderStarted,
    records.LogCleaned,
    records.LogOpened,
    records.LogTruncated,
    records.PartitionsMoved,
    records.ProcessStarted,
    records.RecordsAcknowledged,
    records.RecordsAppended,
    records.ReplicasMoved,
    records.RequestQueued,
    records.RequestReceived,
    records.ResponseSent,
    records.RunDescribed,
    records.StillRunning,
    records.ZkWrite,
)
_OMITTED_APIS = ("Fetch", "UpdateMetadata")


def story_sentence(record: Envelope) -> str | None:
    """Return the sentence of a record; None for one that a transcript leaves out."""
    return None if _is_omitted(record) else describe(record)


def _is_omitted(record: Envelope) -> bool:
    match record.data:
        case records.LeaderAndIsrApplied(leaders=leaders, followers=followers):
            return not leaders and not followers
        case records.StopReplicaApplied(partitions=partitions):
            return not partitions
        case records.ZkWriteDone(outcome=outcome):
            return outcome != "Unknown"
        case records.RequestSent(api=api) | records.RequestFailed(api=api):
            return api in _OMITTED_APIS
        case records.ResponseReceived(error=error):
            return error == "NONE"
        case data:
            return isinstance(data, _OMITTED_TYPES)
