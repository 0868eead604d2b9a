"""Invariants of control requests: which ones brokers apply or refuse, and their order (C4, C10, C11)."""

from __future__ import annotations

from understudy.checks.check import Incarnation, InvariantCheck, incarnation_of
from understudy.checks.facts import ClusterFacts, Partition, name_of
from understudy.checks.missing import RefutedBy
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    ChannelClosed,
    ChannelOpened,
    Envelope,
    FenceHit,
    LeaderAndIsrApplied,
    MetadataUpdated,
    RequestQueued,
    RequestSent,
    StopReplicaApplied,
)

ANY_BROKER_EPOCH = -1
NO_LEADER_EPOCH = -1
EPOCH_DURING_DELETE = -2


class StaleControllerEpochsAreRefused(InvariantCheck):
    id = "C4a"
    sentence = (
        "a broker applies no control request of an older controller epoch than it has applied before, and refuses "
        "only such requests"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (LeaderAndIsrApplied, StopReplicaApplied, MetadataUpdated, FenceHit)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._newest: dict[Incarnation, int] = {}

    def on_record(self, record: Envelope) -> None:
        data = record.data
        if isinstance(data, FenceHit):
            if data.fence == "broker.controller-epoch" and data.offered >= data.known:
                self.violated(
                    record, f"{data.what} was refused at epoch {data.offered}, which is not older than {data.known}"
                )
            return
        assert isinstance(data, LeaderAndIsrApplied | StopReplicaApplied | MetadataUpdated)
        newest = self._newest.get(incarnation_of(record), 0)
        self.times_tested += newest > 0
        if data.request_controller_epoch < newest:
            self.violated(record, f"{record.type} of epoch {data.request_controller_epoch} applied after {newest}")
        self._newest[incarnation_of(record)] = max(newest, data.request_controller_epoch)


class StaleBrokerEpochsAreRefused(InvariantCheck):
    id = "C4b"
    sentence = (
        "a broker applies no control request whose broker epoch is older than its current registration, and refuses "
        "only such requests"
    )
    refuted_by = RefutedBy.NOTHING
    reads = (BrokerRegistered, LeaderAndIsrApplied, StopReplicaApplied, MetadataUpdated, FenceHit)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._registered: dict[Incarnation, int] = {}
        """The broker epoch of the current registration."""

    def on_record(self, record: Envelope) -> None:
        data = record.data
        if isinstance(data, BrokerRegistered):
            self._registered[incarnation_of(record)] = data.broker_epoch
        elif isinstance(data, FenceHit):
            if data.fence == "broker.broker-epoch" and data.offered >= data.known:
                what = f"{data.what} was refused at broker epoch {data.offered}, which is not older than {data.known}"
                self.violated(record, what)
        else:
            assert isinstance(data, LeaderAndIsrApplied | StopReplicaApplied | MetadataUpdated)
            offered = data.request_broker_epoch
            registered = self._registered.get(incarnation_of(record), ANY_BROKER_EPOCH)
            self.times_tested += ANY_BROKER_EPOCH not in (offered, registered)
            if offered != ANY_BROKER_EPOCH and offered < registered:
                self.violated(record, f"{record.type} for broker epoch {offered} applied at broker epoch {registered}")


class StaleLeaderEpochsAreRefused(InvariantCheck):
    id = "C4c"
    sentence = (
        "a broker applies a LeaderAndIsr to a partition only at a leader epoch above its own, and a StopReplica only "
        "at its own leader epoch, a newer one, or without one"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (LeaderAndIsrApplied, StopReplicaApplied, MetadataUpdated)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._epochs: dict[Incarnation, dict[Partition, int]] = {}
        self._live: dict[Incarnation, tuple[int, ...]] = {}

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        epochs = self._epochs.setdefault(incarnation, {})
        if isinstance(data, MetadataUpdated):
            self._live[incarnation] = data.live_brokers
        elif isinstance(data, LeaderAndIsrApplied):
            for leadership in data.leaders + data.followers:
                partition = leadership.topic, leadership.partition
                own = epochs.get(partition, -1)
                self.times_tested += own >= 0
                if leadership.leader_epoch <= own:
                    what = f"LeaderAndIsr for {name_of(partition)} at leader epoch {leadership.leader_epoch}"
                    self.violated(record, f"{what} applied at {own}")
                # A follower whose leader is not in its metadata keeps its old epoch, so that the same LeaderAndIsr can
                # be applied later (BK-9).
                if leadership in data.leaders or leadership.leader in self._live.get(incarnation, ()):
                    epochs[partition] = max(own, leadership.leader_epoch)
        elif isinstance(data, StopReplicaApplied):
            for topic, number, leader_epoch, delete in data.partitions:
                own = epochs.get((topic, number), -1)
                self.times_tested += own >= 0
                if leader_epoch < own and leader_epoch not in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE):
                    self.violated(
                        record, f"{name_of((topic, number))} stopped at leader epoch {leader_epoch} under {own}"
                    )
                if delete:
                    epochs.pop((topic, number), None)


class UpdateMetadataPrecedesLeaderAndIsr(InvariantCheck):
    id = "C10"
    sentence = (
        "a broker receives an UpdateMetadata from a controller before that controller's first LeaderAndIsr, and every "
        "live leader that a LeaderAndIsr makes it follow is in its metadata"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (MetadataUpdated, LeaderAndIsrApplied)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._newest: dict[Incarnation, MetadataUpdated] = {}

    def on_record(self, record: Envelope) -> None:
        incarnation, data = incarnation_of(record), record.data
        if isinstance(data, MetadataUpdated):
            self._newest[incarnation] = data
            return
        assert isinstance(data, LeaderAndIsrApplied)
        metadata = self._newest.get(incarnation)
        self.times_tested += 1
        if metadata is None or metadata.request_controller_epoch < data.request_controller_epoch:
            what = f"LeaderAndIsr of epoch {data.request_controller_epoch} came before that controller's UpdateMetadata"
            self.violated(record, what)
            return
        for leadership in data.followers:
            if leadership.leader in data.live_leaders and leadership.leader not in metadata.live_brokers:
                partition = name_of((leadership.topic, leadership.partition))
                what = f"LeaderAndIsr names leader {leadership.leader} for {partition}, which is not in the metadata"
                self.violated(record, what)


class RequestsAreSentInOrder(InvariantCheck):
    id = "C11"
    sentence = (
        "a controller sends the requests that had to wait for a broker in the order in which they were queued, except "
        "for those that it coalesced"
    )
    refuted_by = RefutedBy.EARLIER_OF_INCARNATION
    reads = (ChannelOpened, ChannelClosed, RequestQueued, RequestSent)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._waiting: dict[tuple[Incarnation, int], list[int]] = {}
        """The sequence numbers of the `RequestQueued` of each channel, by sender and receiver."""

    def on_record(self, record: Envelope) -> None:
        data = record.data
        assert isinstance(data, ChannelOpened | ChannelClosed | RequestQueued | RequestSent)
        waiting = self._waiting.setdefault((incarnation_of(record), data.to), [])
        if isinstance(data, RequestQueued):
            del waiting[max(data.depth - 1, 0) :]  # coalesced
            waiting.append(record.seq)
        elif isinstance(data, RequestSent):
            if not data.queued:
                return
            self.times_tested += 1
            if not waiting or waiting[0] != data.queued:
                first = f"{waiting[0]} was first" if waiting else "none waited"
                self.violated(
                    record, f"{data.api} queued as {data.queued} was sent to broker {data.to}, though {first}"
                )
            waiting[:] = [each for each in waiting if each > data.queued]
        else:
            waiting.clear()


CHECKS: tuple[type[InvariantCheck], ...] = (
    StaleControllerEpochsAreRefused,
    StaleBrokerEpochsAreRefused,
    StaleLeaderEpochsAreRefused,
    UpdateMetadataPrecedesLeaderAndIsr,
    RequestsAreSentInOrder,
)
