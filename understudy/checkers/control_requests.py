"""What must hold of control requests where they arrive: which a broker applies, and what it has heard before (C4,
C10)."""

from __future__ import annotations

from foundation.eventlog.records import (
    BrokerRegistered,
    Envelope,
    FenceHit,
    LeaderAndIsrApplied,
    MetadataUpdated,
    StopReplicaApplied,
)
from understudy.checkers.check import Incarnation, InvariantCheck, incarnation_of
from understudy.checkers.facts import ClusterFacts, Partition

ANY_BROKER_EPOCH = -1
NO_LEADER_EPOCH = -1
EPOCH_DURING_DELETE = -2


class NoOldController(InvariantCheck):
    id = "C4a"
    sentence = (
        "a broker applies a control request only of the newest controller epoch it has applied, and refuses only older "
        "ones"
    )
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
        self.judged += newest > 0
        if data.request_controller_epoch < newest:
            self.violated(record, f"{record.type} of epoch {data.request_controller_epoch} applied after {newest}")
        self._newest[incarnation_of(record)] = max(newest, data.request_controller_epoch)


class NoEarlierRegistration(InvariantCheck):
    id = "C4b"
    sentence = (
        "a broker applies a control request only if it is not meant for an earlier registration than the one in force, "
        "and refuses only such"
    )
    reads = (BrokerRegistered, LeaderAndIsrApplied, StopReplicaApplied, MetadataUpdated, FenceHit)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._in_force: dict[Incarnation, int] = {}

    def on_record(self, record: Envelope) -> None:
        data = record.data
        if isinstance(data, BrokerRegistered):
            self._in_force[incarnation_of(record)] = data.broker_epoch
        elif isinstance(data, FenceHit):
            if data.fence == "broker.broker-epoch" and data.offered >= data.known:
                what = f"{data.what} was refused at broker epoch {data.offered}, which is not older than {data.known}"
                self.violated(record, what)
        else:
            assert isinstance(data, LeaderAndIsrApplied | StopReplicaApplied | MetadataUpdated)
            offered, in_force = data.request_broker_epoch, self._in_force.get(incarnation_of(record), ANY_BROKER_EPOCH)
            self.judged += ANY_BROKER_EPOCH not in (offered, in_force)
            if offered != ANY_BROKER_EPOCH and offered < in_force:
                self.violated(record, f"{record.type} for broker epoch {offered} applied under {in_force}")


class NoOldLeadership(InvariantCheck):
    id = "C4c"
    sentence = (
        "a broker takes a partition from a LeaderAndIsr only at a leader epoch above its own, and "
        "stops one only at its own "
        "epoch, a newer one, or without an epoch"
    )
    reads = (LeaderAndIsrApplied, StopReplicaApplied, MetadataUpdated)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._epochs: dict[Incarnation, dict[Partition, int]] = {}
        self._live: dict[Incarnation, tuple[int, ...]] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        epochs = self._epochs.setdefault(life, {})
        if isinstance(data, MetadataUpdated):
            self._live[life] = data.live_brokers
        elif isinstance(data, LeaderAndIsrApplied):
            for leadership in data.leaders + data.followers:
                partition = leadership.topic, leadership.partition
                own = epochs.get(partition, -1)
                self.judged += own >= 0
                if leadership.leader_epoch <= own:
                    what = f"{_name(partition)} taken at leader epoch {leadership.leader_epoch} over {own}"
                    self.violated(record, what)
                # BK-9: a follower whose leader it does not know keeps its old epoch, and may be told again.
                if leadership in data.leaders or leadership.leader in self._live.get(life, ()):
                    epochs[partition] = max(own, leadership.leader_epoch)
        elif isinstance(data, StopReplicaApplied):
            for topic, number, leader_epoch, delete in data.partitions:
                own = epochs.get((topic, number), -1)
                self.judged += own >= 0
                if leader_epoch < own and leader_epoch not in (NO_LEADER_EPOCH, EPOCH_DURING_DELETE):
                    self.violated(
                        record, f"{_name((topic, number))} stopped at leader epoch {leader_epoch} under {own}"
                    )
                if delete:
                    epochs.pop((topic, number), None)


class BrokersAreKnownBeforeLeaders(InvariantCheck):
    id = "C10"
    sentence = (
        "a broker hears of the live brokers from a controller before that controller's first "
        "LeaderAndIsr, and before it is "
        "told to follow one of them"
    )
    reads = (MetadataUpdated, LeaderAndIsrApplied)

    def __init__(self, facts: ClusterFacts) -> None:
        super().__init__(facts)
        self._heard: dict[Incarnation, MetadataUpdated] = {}

    def on_record(self, record: Envelope) -> None:
        life, data = incarnation_of(record), record.data
        if isinstance(data, MetadataUpdated):
            self._heard[life] = data
            return
        assert isinstance(data, LeaderAndIsrApplied)
        heard = self._heard.get(life)
        self.judged += 1
        if heard is None or heard.request_controller_epoch < data.request_controller_epoch:
            what = f"LeaderAndIsr of epoch {data.request_controller_epoch} came before that controller's UpdateMetadata"
            self.violated(record, what)
            return
        for leadership in data.followers:
            if leadership.leader in data.live_leaders and leadership.leader not in heard.live_brokers:
                partition = _name((leadership.topic, leadership.partition))
                what = f"LeaderAndIsr names leader {leadership.leader} for {partition}, which is unknown to the broker"
                self.violated(record, what)


def _name(partition: tuple[object, ...]) -> str:
    return f"{partition[0]}-{partition[1]}"


CHECKS: tuple[type[InvariantCheck], ...] = (
    NoOldController,
    NoEarlierRegistration,
    NoOldLeadership,
    BrokersAreKnownBeforeLeaders,
)
