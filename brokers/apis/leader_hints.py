"""Names the current leader of a partition for a client that has sent its request to another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.brokers.apis.services import BrokerServices
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import NO_LEADER, NO_LEADER_EPOCH
from understudy.foundation.wire.messages.fetch import LeaderIdAndEpoch, NodeEndpoint


def current_leader(services: BrokerServices, topic_partition: TopicPartition) -> LeaderIdAndEpoch:
    """Return the leader that this broker follows, otherwise the one in its metadata; -1 if it knows none.

    Mirrors `getCurrentLeader`.
    """
    partition = services.replicas.partitions.get(topic_partition)
    if partition is not None:
        return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)
    known = services.metadata.snapshot.partition(*topic_partition)
    if known is not None:
        return LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)
    return LeaderIdAndEpoch(leader_id=NO_LEADER, leader_epoch=NO_LEADER_EPOCH)


def leader_endpoints(services: BrokerServices, leaders: Iterable[int], listener: str) -> tuple[NodeEndpoint, ...]:
    """Return the endpoints of leaders that are alive and have the listener, in the order of their ids."""
    wanted = sorted(set(leaders) - {NO_LEADER})
    if not wanted:
        return ()
    snapshot = services.metadata.snapshot
    return tuple(
        NodeEndpoint(node_id=leader, host=at.host, port=at.port, rack=snapshot.live_brokers[leader].rack)
        for leader in wanted
        if (at := snapshot.endpoint(leader, listener)) is not None
    )
