"""Tests of the valid transitions of partitions and replicas, which are Kafka's."""

from __future__ import annotations

import pytest

from understudy.controller.transitions import (
    VALID_PREVIOUS_PARTITION_STATES,
    VALID_PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)

KAFKAS_PARTITION_TABLE = """
NewPartition         <- NonExistentPartition
OnlinePartition      <- NewPartition OnlinePartition OfflinePartition
OfflinePartition     <- NewPartition OnlinePartition OfflinePartition
NonExistentPartition <- OfflinePartition
"""

KAFKAS_REPLICA_TABLE = """
NewReplica                <- NonExistentReplica
OnlineReplica             <- NewReplica OnlineReplica OfflineReplica ReplicaDeletionIneligible
OfflineReplica            <- NewReplica OnlineReplica OfflineReplica ReplicaDeletionIneligible
ReplicaDeletionStarted    <- OfflineReplica
ReplicaDeletionSuccessful <- ReplicaDeletionStarted
ReplicaDeletionIneligible <- OfflineReplica ReplicaDeletionStarted
NonExistentReplica        <- ReplicaDeletionSuccessful
"""


def parsed(table: str) -> dict[str, set[str]]:
    rows = (line.split("<-") for line in table.strip().splitlines())
    return {target.strip(): set(sources.split()) for target, sources in rows}


@pytest.mark.spec("PSM-2", "C9")
def test_partition_transitions_are_kafkas() -> None:
    ours = {
        target.value: {source.value for source in VALID_PREVIOUS_PARTITION_STATES[target]} for target in PartitionState
    }
    assert ours == parsed(KAFKAS_PARTITION_TABLE)


@pytest.mark.spec("RSM-2", "C9")
def test_replica_transitions_are_kafkas() -> None:
    ours = {target.value: {source.value for source in VALID_PREVIOUS_REPLICA_STATES[target]} for target in ReplicaState}
    assert ours == parsed(KAFKAS_REPLICA_TABLE)


def test_every_state_has_a_valid_previous_state() -> None:
    assert set(VALID_PREVIOUS_PARTITION_STATES) == set(PartitionState)
    assert set(VALID_PREVIOUS_REPLICA_STATES) == set(ReplicaState)
    for sources in (*VALID_PREVIOUS_PARTITION_STATES.values(), *VALID_PREVIOUS_REPLICA_STATES.values()):
        assert len(sources) == len(set(sources))
