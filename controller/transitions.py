"""The states of partitions and replicas, and the valid transitions. Mirrors `kafka.controller.PartitionState` and
`ReplicaState`.

Values are Kafka's own labels, as logs, records and diagrams show them.

    Partition: NonExistent → New → Online ⇄ Offline → NonExistent
    Replica:   NonExistent → New → Online ⇄ Offline → DeletionStarted → DeletionSuccessful → NonExistent
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    """The state of a partition in the controller's memory."""

    NEW = "NewPartition"
    """Assigned, and never had a leader."""
    ONLINE = "OnlinePartition"
    """It has a leader."""
    OFFLINE = "OfflinePartition"
    """Its leader is offline and no other could be elected."""
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""


class ReplicaState(Enum):
    """The state of a replica in the controller's memory."""

    NEW = "NewReplica"
    """Just assigned; it may only become a follower."""
    ONLINE = "OnlineReplica"
    """Started; it may lead or follow."""
    OFFLINE = "OfflineReplica"
    """Its broker or its log directory is offline."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """Its broker has been asked to delete it."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker has deleted it."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It cannot be deleted for now: it is offline, or its deletion failed."""
    NON_EXISTENT = "NonExistentReplica"
    """Never assigned, or deleted."""


VALID_PREVIOUS_PARTITION_STATES: Mapping[PartitionState, tuple[PartitionState, ...]] = {
    PartitionState.NEW: (PartitionState.NON_EXISTENT,),
    PartitionState.ONLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.OFFLINE: (PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE),
    PartitionState.NON_EXISTENT: (PartitionState.OFFLINE,),
}

VALID_PREVIOUS_REPLICA_STATES: Mapping[ReplicaState, tuple[ReplicaState, ...]] = {
    ReplicaState.NEW: (ReplicaState.NON_EXISTENT,),
    ReplicaState.ONLINE: (
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.OFFLINE: (
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    ),
    ReplicaState.DELETION_STARTED: (ReplicaState.OFFLINE,),
    ReplicaState.DELETION_SUCCESSFUL: (ReplicaState.DELETION_STARTED,),
    ReplicaState.DELETION_INELIGIBLE: (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED),
    ReplicaState.NON_EXISTENT: (ReplicaState.DELETION_SUCCESSFUL,),
}
