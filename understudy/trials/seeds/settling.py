"""Waits until a cluster has settled after the last fault, except for what may stay as it is."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from understudy.checks.facts import Partition
from understudy.checks.replica_logs import partitions_that_may_have_lost
from understudy.clusters.cluster import Unsettled
from understudy.clusters.findings import Finding, FindingKind
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.leadership import INITIAL_PARTITION_EPOCH

SETTLE_TIMEOUT_S: Final = 30.0
"""Time in which the cluster must settle after the last fault: a controlled shutdown in progress, a session timeout, the
return of a replica to the ISR, and a reserve."""


def settle_after_faults(cluster: SimulatedCluster, timeout_s: float) -> None:
    """Let the cluster settle, except for findings that stay because of a loss of power or a first state.

    See `is_kept_by_loss` and `is_kept_by_first_state`.

    Raises:
        Unsettled: something else is left.
    """
    try:
        cluster.settle(timeout_s=timeout_s)
    except Unsettled:
        lost = partitions_that_may_have_lost(cluster.records())
        picture = cluster.picture()
        for left in cluster.findings().unresolved:
            if not is_kept_by_loss(left, picture, lost) and not is_kept_by_first_state(left, picture):
                raise


def is_kept_by_loss(left: Finding, picture: ClusterPicture, lost: Collection[Partition]) -> bool:
    """Return whether a finding may stay because of a loss of power: a follower outside an ISR, or a move that needs it.

    A leader that returns without the lost records, and continues to lead at the same leader epoch, may hold other
    batches than its followers at the end of their logs. Such a follower stops fetching the partition, as in Kafka
    (`UnexpectedAppendOffsetException`): its leader epochs show no difference. A reassignment to it cannot end, because
    all its target replicas must be in sync (`KafkaController.isReassignmentComplete`).

    Args:
        lost: the partitions that may have lost records.
    """
    if left.partition is None or (left.partition.topic, left.partition.partition) not in lost:
        return False
    if left.kind is not FindingKind.REASSIGNMENT:
        return left.kind is FindingKind.UNDER_REPLICATED
    seen = picture.partitions[left.partition]
    in_sync = () if seen.state is None else seen.state.leader_and_isr.isr
    return not set(seen.assignment.target_replicas).issubset(in_sync)


def is_kept_by_first_state(left: Finding, picture: ClusterPicture) -> bool:
    """Return whether a move may stay because the partition got its first state, with every target in sync, after it.

    As in Kafka, the controller looks at a move when a leader has changed the ISR, when a target's broker starts, and
    when it takes over, not when it writes the first state: `PartitionReassignmentIsrChangeHandler` is called for
    changes of the state znode, and not for its creation.
    """
    if left.kind is not FindingKind.REASSIGNMENT or left.partition is None:
        return False
    seen = picture.partitions[left.partition]
    if seen.state is None:
        return False
    state = seen.state.leader_and_isr
    is_first = state.partition_epoch == INITIAL_PARTITION_EPOCH
    return is_first and set(seen.assignment.target_replicas).issubset(state.isr)
