"""Records of a KRaft quorum, which `understudy import-kafka` writes."""

from __future__ import annotations

from typing import TypeAlias

from understudy.foundation.eventlog.record_types.base import RecordPayload


class PartitionsAssigned(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for the active controller of a KRaft cluster when partitions get replicas or eligible leader replicas
    (KIP-966), before the `LeadershipWritten` of the same change."""

    partitions: tuple[tuple[str, int, tuple[int, ...], tuple[int, ...]], ...]
    """(topic, partition, broker ids of the replicas, broker ids of the eligible leader replicas). During a reassignment
    the replicas that are added and removed are among them."""


QuorumRecord: TypeAlias = PartitionsAssigned
