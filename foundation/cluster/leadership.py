"""The leader, epochs and ISR of a partition.

Mirrors `kafka.api.LeaderAndIsr` and `kafka.controller.LeaderIsrAndControllerEpoch`.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from understudy.foundation.cluster.identifiers import BrokerId

NO_LEADER = BrokerId(-1)
"""The leader of a partition that has none."""

LEADER_DURING_DELETE = BrokerId(-2)
"""The leader that UpdateMetadata names for a partition of a topic queued for deletion."""

INITIAL_PARTITION_EPOCH = 0
NO_LEADER_EPOCH = -1
"""A leader epoch that is not known or, in a Fetch request, not named."""
EPOCH_DURING_DELETE = -2
"""The leader epoch in a StopReplica request for a partition of a topic queued for deletion."""


class LeaderRecoveryState(IntEnum):
    """Whether the leader may have lost records: RECOVERING after an unclean election (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(msgspec.Struct, frozen=True, gc=False):
    """A partition's leader and ISR, as in its state znode; `partition_epoch` is that znode's version."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = INITIAL_PARTITION_EPOCH


class LeaderIsrAndControllerEpoch(msgspec.Struct, frozen=True, gc=False):
    """A partition's state and the epoch of the controller that wrote it."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int
