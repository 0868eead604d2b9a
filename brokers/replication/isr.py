"""Who joins and who leaves the ISR, and what an answer of the controller means for it. Mirrors the leader's half of
`kafka.cluster.Partition`.

Plain functions over a partition and what is known of its followers; `alter_partition_manager` carries the proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from brokers.replication.partition import LOG_END_OFFSET, FollowerState, IsrProposal, Partition
from foundation.cluster.errors import Errors
from foundation.cluster.leadership import NO_LEADER_EPOCH

HIGH_WATERMARK = 0
EPOCH_START_OFFSET = 0

REVERTS = frozenset({Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA})
"""The controller has not changed anything, and asking again makes no sense before something else changes."""

STAYS_PENDING = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    }
)
"""The controller knows of something newer: its next LeaderAndIsr settles what the ISR is."""


def after_fetch(
    known: FollowerState, fetch_offset: int, now_ms: float, *, leader_epoch: int = NO_LEADER_EPOCH
) -> FollowerState:
    """What a Fetch tells of its sender: it has everything before `fetch_offset`."""
    caught_up = now_ms if fetch_offset >= LOG_END_OFFSET else known.last_caught_up_ms
    return FollowerState(fetch_offset, max(known.last_caught_up_ms, caught_up), now_ms, leader_epoch)


def expansion(
    partition: Partition, follower: int, state: FollowerState, *, is_alive: Callable[[int], bool]
) -> IsrProposal | None:
    """IS-1: the ISR with `follower`, where it may join now."""
    if partition.proposal is not None or not partition.is_leader or follower in partition.isr:
        return None
    in_sync = state.log_end_offset >= HIGH_WATERMARK and state.log_end_offset >= EPOCH_START_OFFSET
    if not in_sync or not is_alive(follower):
        return None
    return IsrProposal(
        isr=(*partition.isr, follower),
        joining=(follower,),
        leaving=(),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def shrinkage(
    partition: Partition, followers: Mapping[int, FollowerState], *, broker_id: int, now_ms: float, max_lag_ms: float
) -> IsrProposal | None:
    """IS-2: the ISR without everybody who lags, where somebody does."""
    if partition.proposal is not None or not partition.is_leader:
        return None
    laggards = tuple(
        member
        for member in partition.isr
        if member != broker_id and _lags(followers.get(member), partition, now_ms=now_ms, max_lag_ms=max_lag_ms)
    )
    if not laggards:
        return None
    return IsrProposal(
        isr=tuple(member for member in partition.isr if member not in laggards),
        joining=(),
        leaving=laggards,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def _lags(state: FollowerState | None, partition: Partition, *, now_ms: float, max_lag_ms: float) -> bool:
    """A follower nobody has heard of counts as caught up when the leader's epoch began: it was in the ISR then."""
    if state is None:
        return now_ms - partition.leader_since_ms > max_lag_ms
    return state.log_end_offset != LOG_END_OFFSET and now_ms - state.last_caught_up_ms > max_lag_ms


def proposing(partition: Partition, proposal: IsrProposal) -> Partition:
    return msgspec.structs.replace(partition, proposal=proposal)


def accepted(
    partition: Partition, proposal: IsrProposal, *, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...]
) -> Partition | None:
    """IS-6: the partition with what the controller wrote; None where the answer is not about the present state."""
    if (
        partition.proposal != proposal
        or leader_epoch != partition.leader_epoch
        or partition_epoch < partition.partition_epoch
    ):
        return None
    return msgspec.structs.replace(partition, isr=isr, partition_epoch=partition_epoch, proposal=None)


def refused(partition: Partition, proposal: IsrProposal, error: Errors) -> tuple[Partition | None, bool]:
    """IS-6: the partition after `error` (None where it stays as it is), and whether to ask again."""
    if partition.proposal != proposal:
        return None, False
    if error in REVERTS:
        return msgspec.structs.replace(partition, proposal=None), False
    return None, error not in STAYS_PENDING
