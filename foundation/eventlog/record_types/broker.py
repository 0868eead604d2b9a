"""Records of a broker: what it applied of control requests, and the ISRs its leaders propose."""

from __future__ import annotations

from typing import TypeAlias

from understudy.foundation.eventlog.record_types.base import Leadership, RecordPayload


class _ControlRequestRecord(RecordPayload, frozen=True, kw_only=True, gc=False):
    """The base class of the records of control requests that a broker has applied."""

    controller_id: int
    """Broker id of the controller that sent the request."""
    request_controller_epoch: int
    """The controller epoch in the request."""
    request_broker_epoch: int
    """The broker epoch in the request; −1 if it has none."""


class LeaderAndIsrApplied(_ControlRequestRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has applied a LeaderAndIsr request to the partitions whose epochs it accepted."""

    leaders: tuple[Leadership, ...]
    """The partitions that this broker leads from now on."""
    followers: tuple[Leadership, ...]
    """The partitions that this broker follows from now on."""
    live_leaders: tuple[int, ...] = ()
    """Ids of the leaders whose address is in the request: those that are live for the controller."""
    leaderless: tuple[tuple[str, int], ...] = ()
    """(topic, partition) of those that were not applied: this broker should follow a leader that is not in its metadata
    cache."""


class StopReplicaApplied(_ControlRequestRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has applied a StopReplica request to the partitions whose epochs it accepted."""

    partitions: tuple[tuple[str, int, int, bool], ...]
    """(topic, partition, leader epoch, whether the replica is deleted)."""


class MetadataUpdated(_ControlRequestRecord, frozen=True, kw_only=True, gc=False):
    """Written by a broker when an UpdateMetadata request has replaced its metadata cache."""

    live_brokers: tuple[int, ...]
    """Ids of the live brokers in the request, sorted."""
    partitions: tuple[Leadership, ...]
    """The partitions in the request; leader −2 if the topic is being deleted."""


class IsrProposed(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the leader of a partition when it submits a new ISR to the controller."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    leader_epoch: int
    """The leader epoch in which it leads."""
    partition_epoch: int
    """The partition epoch that the proposal replaces."""
    isr: tuple[int, ...]
    """Broker ids of the proposed ISR."""
    joining: tuple[int, ...]
    """Broker ids that the proposal adds."""
    leaving: tuple[int, ...]
    """Broker ids that the proposal removes."""
    leader_end_offset: int
    """The leader's log end offset."""
    follower_end_offsets: tuple[tuple[int, int], ...]
    """(broker id, log end offset) of those joining."""
    high_watermark: int = 0
    """The partition's high watermark, an offset."""
    epoch_start_offset: int = 0
    """The log end offset with which the leader began its leader epoch."""
    follower_leader_epochs: tuple[tuple[int, int], ...] = ()
    """(broker id, leader epoch of its last Fetch) of those joining; −1 if the Fetch had none."""


class IsrResult(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the leader of a partition when the controller has answered its proposal of an ISR."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number in the topic, from 0."""
    error: str
    """Kafka's name of the error; `NONE` if the ISR was accepted."""
    leader_epoch: int
    """The leader epoch in the answer."""
    partition_epoch: int
    """The partition epoch in the answer."""
    isr: tuple[int, ...]
    """Broker ids of the ISR in the answer."""


BrokerRecord: TypeAlias = LeaderAndIsrApplied | StopReplicaApplied | MetadataUpdated | IsrProposed | IsrResult
