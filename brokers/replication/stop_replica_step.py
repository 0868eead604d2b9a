"""Decides which replicas a StopReplica request stops (BK-14). Mirrors the checks of `ReplicaManager.stopReplicas`.

A plain function from the hosted partitions and a request to its answer; `ReplicaManager` applies it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from understudy.brokers.replication.partition import HostedPartitions, StaleLeaderEpoch
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import EPOCH_DURING_DELETE, NO_LEADER_EPOCH
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest


class StoppedReplica(NamedTuple):
    """One partition of a StopReplica request."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


class StopReplicaStep(NamedTuple):
    """The answer to a StopReplica request, and the replicas to stop, hosted or not.

    Attributes:
        stale: the partitions whose leader epoch is older than the known one.
    """

    errors: dict[TopicPartition, Errors]
    stale: tuple[StaleLeaderEpoch, ...]
    accepted: tuple[StoppedReplica, ...]


def stop_replica_step(
    hosted: HostedPartitions, request: StopReplicaRequest, *, refuses_older_epochs: bool = True
) -> StopReplicaStep:
    """Accept a leader epoch that is not older than the known one, none, or the one that deletions carry (BK-14).

    Of a partition that the request names twice, the last entry counts.

    Args:
        refuses_older_epochs: False if an experiment has switched that off.
    """
    errors: dict[TopicPartition, Errors] = {}
    stale: list[StaleLeaderEpoch] = []
    accepted: list[StoppedReplica] = []
    requested = {stopped.topic_partition: stopped for stopped in stopped_replicas(request)}
    for topic_partition, stopped in requested.items():
        known = hosted.get(topic_partition)
        bypasses = stopped.leader_epoch in (EPOCH_DURING_DELETE, NO_LEADER_EPOCH)
        is_stale = known is not None and not bypasses and stopped.leader_epoch < known.leader_epoch
        if known is not None and is_stale:
            stale.append(StaleLeaderEpoch(topic_partition, stopped.leader_epoch, known.leader_epoch))
        if is_stale and refuses_older_epochs:
            errors[topic_partition] = Errors.FENCED_LEADER_EPOCH
        else:
            errors[topic_partition] = Errors.NONE
            accepted.append(stopped)
    return StopReplicaStep(errors, tuple(stale), tuple(accepted))


def stopped_replicas(request: StopReplicaRequest) -> Iterator[StoppedReplica]:
    """The partitions of a request of any version. Before version 3 there are no leader epochs, and one flag for all."""
    for state in request.topic_states:
        for partition in state.partition_states:
            topic_partition = TopicPartition(state.topic_name, partition.partition_index)
            yield StoppedReplica(topic_partition, partition.leader_epoch, partition.delete_partition)
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield StoppedReplica(TopicPartition(topic.name, index), NO_LEADER_EPOCH, request.delete_partitions)
    for ungrouped in request.ungrouped_partitions:
        topic_partition = TopicPartition(ungrouped.topic_name, ungrouped.partition_index)
        yield StoppedReplica(topic_partition, NO_LEADER_EPOCH, request.delete_partitions)
