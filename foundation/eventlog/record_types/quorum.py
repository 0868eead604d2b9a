"""Records of a KRaft quorum, which `understudy import-kafka` writes."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from understudy.foundation.eventlog.record_types.base import RecordPayload


class Assignment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The replicas of one partition of a KRaft cluster, written as an array of four values."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    replicas: tuple[int, ...]
    """Broker ids of the replicas, the preferred leader first; during a reassignment also of those that it adds and
    removes."""
    eligible_leaders: tuple[int, ...]
    """Broker ids of the eligible leader replicas (KIP-966)."""


class PartitionsAssigned(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for the active controller of a KRaft cluster when partitions get replicas or eligible leader replicas
    (KIP-966), before the `LeadershipWritten` of the same change."""

    partitions: tuple[Assignment, ...]
    """The partitions whose assignment is new."""


class BecameCandidate(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written for a voter of a KRaft quorum when it stops following the leader and seeks election: it became a
    candidate, or prospective (since Kafka 4.0, KIP-996)."""

    why: str
    """The reason in the voter's log, for example `fetch timeout`."""


QuorumRecord: TypeAlias = PartitionsAssigned | BecameCandidate
