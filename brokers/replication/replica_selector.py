"""Chooses the replica that a consumer is to read from (KIP-392).

Mirrors `org.apache.kafka.common.replica.RackAwareReplicaSelector`. The configuration may name no other class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from understudy.brokers.replication.partition import Partition


class ReplicaView(NamedTuple):
    """A follower that has what the consumer asks for. Mirrors `org.apache.kafka.common.replica.ReplicaView`."""

    log_end_offset: int
    since_caught_up_ms: float
    broker_id: int


def preferred_read_replica(
    partition: Partition, *, rack: str, fetch_offset: int, rack_of: Callable[[int], str | None], now_ms: float
) -> int | None:
    """Return the follower in the consumer's rack that is caught up most; None if the leader is to be read from.

    A follower counts if it is in the ISR and its log has the offset: one that lags would be chosen again and again,
    while the consumer finds nothing there; `findPreferredReadReplica`.

    Args:
        partition: led by this broker.
        rack: the consumer's; empty if it names none.
        rack_of: returns the rack of a broker; None if it is not alive, or the consumer cannot reach it.
    """
    if not rack or rack_of(partition.leader) == rack:
        return None
    views = [
        ReplicaView(known.log_end_offset, now_ms - known.caught_up_ms, broker_id)
        for broker_id, known in partition.followers.items()
        if broker_id in partition.state.isr
        and known.log_start_offset <= fetch_offset <= known.log_end_offset
        and rack_of(broker_id) == rack
    ]
    return max(views, key=_most_caught_up).broker_id if views else None


def _most_caught_up(view: ReplicaView) -> tuple[int, float, int]:
    return view.log_end_offset, -view.since_caught_up_ms, view.broker_id
