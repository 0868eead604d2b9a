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


class BecameCandidate(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for a voter of a KRaft quorum when it stops following the leader and seeks election: it became a
    candidate, or prospective (since Kafka 4.0, KIP-996)."""

    why: str
    """The reason in the voter's log, for example `fetch timeout`."""


QuorumRecord: TypeAlias = PartitionsAssigned | BecameCandidate
