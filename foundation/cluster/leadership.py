"""Who leads a partition, since which epoch, and who is in sync.

Mirrors `org.apache.kafka.metadata.LeaderAndIsr` and `kafka.controller.LeaderIsrAndControllerEpoch`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from foundation.cluster.identifiers import BrokerId

NO_LEADER = BrokerId(-1)
LEADER_DURING_DELETE = BrokerId(-2)
"""The leader that UpdateMetadata names for a partition of a topic queued for deletion."""

INITIAL_PARTITION_EPOCH = 0
NO_LEADER_EPOCH = -1
EPOCH_DURING_DELETE = -2


class LeaderRecoveryState(IntEnum):
    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(msgspec.Struct, frozen=True, gc=False):
    """One partition's state znode. `partition_epoch` is the znode's data version, not part of its bytes."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = INITIAL_PARTITION_EPOCH


class LeaderIsrAndControllerEpoch(msgspec.Struct, frozen=True, gc=False):
    """A partition's state and the epoch of the controller that wrote it."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
