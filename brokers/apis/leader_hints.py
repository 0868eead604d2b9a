"""Names the current leader of a partition for a client that has sent its request to another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from understudy.brokers.apis.services import BrokerServices
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER, NO_LEADER_EPOCH


class CurrentLeader(NamedTuple):
    """The leader of a partition as this broker knows it; -1 for both if it does not."""

    leader: int
    leader_epoch: int


def current_leader(services: BrokerServices, topic_partition: TopicPartition) -> CurrentLeader:
    """Return the leader that this broker follows, otherwise the one in its metadata. Mirrors `getCurrentLeader`."""
    partition = services.replicas.partitions.get(topic_partition)
    if partition is not None:
        return CurrentLeader(partition.leader, partition.leader_epoch)
    known = services.metadata.snapshot.partition(*topic_partition)
    if known is not None:
        return CurrentLeader(known.leader, known.leader_epoch)
    return CurrentLeader(NO_LEADER, NO_LEADER_EPOCH)


class LeaderAddress(NamedTuple):
    """Where a leader is reached on the listener of a request."""

    node_id: int
    host: str
    port: int
    rack: str | None


def leader_addresses(services: BrokerServices, leaders: Iterable[int], listener: str) -> tuple[LeaderAddress, ...]:
    """Return the addresses of leaders that are alive and have the listener, in the order of their ids."""
    wanted = sorted(set(leaders))
    if not wanted:
        return ()
    snapshot = services.metadata.snapshot
    return tuple(
        LeaderAddress(leader, at.host, at.port, snapshot.live_brokers[leader].rack)
        for leader in wanted
        if (at := snapshot.endpoint(leader, listener)) is not None
    )
