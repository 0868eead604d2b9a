"""What ZooKeeper says about a cluster at one moment, and what is wrong with it: values and plain functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.broker import BrokerAndEpoch
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.cluster.leadership import LeaderIsrAndControllerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    assignment: ReplicaAssignment
    state: LeaderIsrAndControllerEpoch | None
    """None where it has no state znode yet, or one that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPicture:
    """One reading of ZooKeeper. Its parts are read one after the other: during a failover they may contradict each
    other."""

    controller: BrokerId | None
    controller_epoch: int
    """0 where there has never been a controller."""
    brokers: Mapping[BrokerId, BrokerAndEpoch]
    partitions: Mapping[TopicPartition, PartitionPicture]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Partitions that lack something, sorted; one partition can be in several."""

    leaderless: tuple[TopicPartition, ...] = field(default=())
    """No leader, or one that is not registered."""
    under_replicated: tuple[TopicPartition, ...] = field(default=())
    """Fewer in-sync replicas than assigned ones."""
    not_preferred: tuple[TopicPartition, ...] = field(default=())
    """Led by another live broker than the first of its replicas."""

    @property
    def is_well(self) -> bool:
        return not (self.leaderless or self.under_replicated or self.not_preferred)


def findings(picture: ClusterPicture) -> Findings:
    """What each partition lacks, as `kafka-topics --describe --unavailable-partitions` and its siblings would say."""
    leaderless, under_replicated, not_preferred = [], [], []
    for partition, seen in sorted(picture.partitions.items()):
        replicas = seen.assignment.replicas
        leader = leader_of(picture, partition)
        isr = () if seen.state is None else seen.state.leader_and_isr.isr
        if leader is None:
            leaderless.append(partition)
        elif replicas and leader != replicas[0]:
            not_preferred.append(partition)
        if not set(replicas).issubset(isr):
            under_replicated.append(partition)
    return Findings(
        leaderless=tuple(leaderless), under_replicated=tuple(under_replicated), not_preferred=tuple(not_preferred)
    )


def leader_of(picture: ClusterPicture, partition: TopicPartition) -> BrokerId | None:
    """The registered broker that leads it, or None."""
    seen = picture.partitions[partition]
    if seen.state is None or seen.state.leader_and_isr.leader not in picture.brokers:
        return None
    return seen.state.leader_and_isr.leader
