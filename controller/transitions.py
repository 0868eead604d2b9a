"""The states of partitions and replicas, and which move is legal: both machines on one screen.

Values are Kafka's own labels, which logs, records and diagrams show. Mirrors `kafka.controller.PartitionState` and
`ReplicaState`.

    Partition: NonExistent → New → Online ⇄ Offline → NonExistent
    Replica:   NonExistent → New → Online ⇄ Offline → DeletionStarted → DeletionSuccessful → NonExistent
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class PartitionState(Enum):
    NEW = "NewPartition"
    """Assigned, but without a leader yet."""
    ONLINE = "OnlinePartition"
    """It has an elected leader."""
    OFFLINE = "OfflinePartition"
    """Its leader died and none could take over."""
    NON_EXISTENT = "NonExistentPartition"
    """Never created, or deleted."""


class ReplicaState(Enum):
    NEW = "NewReplica"
    """Just assigned; it may only become a follower."""
    ONLINE = "OnlineReplica"
    """Started; it may lead or follow."""
    OFFLINE = "OfflineReplica"
    """Its broker or its log directory is down."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It cannot be deleted for now: it is down, or its deletion failed."""
    NON_EXISTENT = "NonExistentReplica"


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
