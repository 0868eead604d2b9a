"""Finds the partition that a request reads, if this broker may serve it. Mirrors `Partition.getLocalLog`."""

from __future__ import annotations

from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.log.leader_epoch_cache import UNDEFINED_EPOCH, EpochEnd
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.replication.partition import Partition, Role
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.fences import Fence

NO_EPOCH = -1


def epoch_error(
    services: BrokerServices, api: str, topic_partition: TopicPartition, offered: int, known: int
) -> Errors:
    """The error of a request that names a leader epoch, or NONE (BK-13).

    Args:
        offered: the leader epoch in the request; -1 is not checked.
        known: the leader epoch of this broker.
    """
    if offered in (NO_EPOCH, known):
        return Errors.NONE
    if offered > known:
        return Errors.UNKNOWN_LEADER_EPOCH
    what = f"{api} {topic_partition}"
    if services.fences.record_hit(Fence.FETCH_LEADER_EPOCH, what=what, offered=offered, known=known):
        return Errors.FENCED_LEADER_EPOCH
    return Errors.NONE


def epoch_end(services: BrokerServices, log: PartitionLog, leader_epoch: int) -> EpochEnd:
    """Where a leader epoch of another replica ends in the leader's log; the answer names the largest one up to it."""
    end = log.epochs.end_offset_for(leader_epoch, log.log_end_offset)
    if (
        UNDEFINED_EPOCH < end.epoch < leader_epoch
        and not services.fences.rules.unknown_epoch_ends_with_one_before.holds_for(log.topic_partition)
    ):
        return end._replace(epoch=leader_epoch)
    return end


def readable_partition(
    services: BrokerServices, api: str, topic_partition: TopicPartition, leader_epoch: int, *, only_leader: bool
) -> Partition:
    """Return a partition that this broker leads, or with `only_leader` false also one that it follows.

    Raises:
        ApiError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
    """
    partition = services.replicas.partitions.get(topic_partition)
    if partition is None:
        if services.metadata.snapshot.partition(*topic_partition) is None:
            raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
        raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER, f"this broker has no replica of {topic_partition}")
    state = partition.state
    error = epoch_error(services, api, topic_partition, leader_epoch, state.leader_epoch)
    if error is not Errors.NONE:
        reason = f"the leader epoch in the request is {leader_epoch}, that of {topic_partition} is {state.leader_epoch}"
        raise ApiError(error, reason)
    if state.role is Role.NONE or (only_leader and state.role is not Role.LEADER):
        raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {topic_partition}")
    return partition
