"""Decides which followers join and leave the ISR, and what an AlterPartition answer means. Mirrors the leader's half
of `kafka.cluster.Partition`.

Plain functions over the state of a partition, its followers and its log's offsets; `isr_manager` calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from understudy.brokers.replication.partition import (
    UNKNOWN_OFFSET,
    FollowerState,
    IsrProposal,
    LastFetch,
    LocalPartitionState,
)
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.leadership import NO_LEADER_EPOCH


class OnRefusal(Enum):
    """What a leader does with a proposal that the controller has refused."""

    REVERT = "revert"
    """Give it up: the controller has stated that it knows our epochs and has changed nothing."""
    AWAIT_METADATA = "await metadata"
    """Keep it pending: the state has changed elsewhere, and a LeaderAndIsr with the newer one is to come.

    It is sent again meanwhile, when `may_repeat` allows it: a deposed controller that has not noticed may have refused
    it, and then no LeaderAndIsr comes. Kafka waits for ever; it closed other cases of this in KAFKA-14154.
    """
    RETRY = "retry"
    """Send it again at once."""


_REVERT = frozenset({Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA})

_AWAIT_METADATA = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    }
)


def after_fetch(
    known: FollowerState,
    fetch_offset: int,
    now_ms: float,
    *,
    leader_end_offset: int,
    leader_epoch: int = NO_LEADER_EPOCH,
    log_start_offset: int = UNKNOWN_OFFSET,
) -> FollowerState:
    """Return the state of a follower after its Fetch: it has everything before `fetch_offset`; `updateFetchState`.

    Under constant load it never fetches at the leader's end. It was caught up at its last Fetch also if it now has what
    the leader had then.
    """
    known = known.current
    caught_up = known.last_caught_up_ms
    if fetch_offset >= leader_end_offset:
        caught_up = max(caught_up, now_ms)
    elif fetch_offset >= known.last_fetch_leader_end_offset:
        caught_up = max(caught_up, known.last_fetch_ms)
    return FollowerState(
        log_end_offset=fetch_offset,
        last_caught_up_ms=caught_up,
        last_fetch_ms=now_ms,
        leader_epoch=leader_epoch,
        last_fetch_leader_end_offset=max(leader_end_offset, known.last_fetch_leader_end_offset),
        log_start_offset=log_start_offset,
    )


def in_session(
    partition: LocalPartitionState,
    follower: int,
    known: FollowerState,
    last_fetch: LastFetch,
    *,
    leader_end_offset: int,
) -> FollowerState | None:
    """The state of a follower for which every further Fetch of its session counts as one at the leader's end.

    None if that would not be the same as `after_fetch` for each of them: the follower does not have all records, or
    it is not in the ISR and may join it with any Fetch. It holds until the partition changes in whatever way.
    """
    has_all = known.log_end_offset == known.last_fetch_leader_end_offset == leader_end_offset
    if known.session is last_fetch and has_all and follower in partition.isr:
        return known
    if known.session is not None or known.last_fetch_ms != last_fetch.ms:
        return None
    return known._replace(session=last_fetch) if has_all and follower in partition.isr else None


def high_watermark(
    partition: LocalPartitionState,
    followers: Mapping[int, FollowerState],
    *,
    broker_id: int,
    leader_end_offset: int,
    now_ms: float,
    max_lag_ms: float,
    is_alive: Callable[[int], bool],
) -> int:
    """The offset up to which every replica has the log that counts; `maybeIncrementLeaderHW`.

    Those are the members of the maximal ISR, and the replicas outside it that have caught up and may join: one that
    joins must have everything below the high watermark, and would lack what others alone have let it pass. A member
    that has not fetched from this leader yet has no known end, so the high watermark does not move.
    """
    lowest = leader_end_offset
    for replica in {*partition.maximal_isr, *followers}:
        if replica == broker_id:
            continue
        known = followers.get(replica)
        if known is None:
            return UNKNOWN_OFFSET
        if known.log_end_offset < lowest and is_awaited(
            replica,
            known,
            partition=partition,
            leader_end_offset=leader_end_offset,
            now_ms=now_ms,
            max_lag_ms=max_lag_ms,
            is_alive=is_alive,
        ):
            lowest = known.log_end_offset
    return lowest


def is_awaited(
    follower: int,
    known: FollowerState,
    *,
    partition: LocalPartitionState,
    leader_end_offset: int,
    now_ms: float,
    max_lag_ms: float,
    is_alive: Callable[[int], bool],
) -> bool:
    """Whether the high watermark waits for a follower: it is in the maximal ISR, or has caught up and may join it."""
    return follower in partition.maximal_isr or (
        is_caught_up(known, leader_end_offset, now_ms, max_lag_ms) and is_alive(follower)
    )


def is_caught_up(known: FollowerState, leader_end_offset: int, now_ms: float, max_lag_ms: float) -> bool:
    """Whether a follower has all records, or had all of them within `replica.lag.time.max.ms`; `isCaughtUp`."""
    return known.log_end_offset == leader_end_offset or now_ms - known.caught_up_ms <= max_lag_ms


def expansion(
    partition: LocalPartitionState,
    follower: int,
    known: FollowerState,
    *,
    high_watermark: int,
    leader_epoch_start_offset: int,
    is_alive: Callable[[int], bool],
) -> IsrProposal | None:
    """The ISR with `follower`, or None if it may not join now; `maybeExpandIsr` (IS-1)."""
    if partition.proposal is not None or not partition.is_leader or follower in partition.isr:
        return None
    if not _is_in_sync(known, high_watermark, leader_epoch_start_offset) or not is_alive(follower):
        return None
    return IsrProposal(
        isr=(*partition.isr, follower),
        joining=(follower,),
        leaving=(),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def shrinkage(
    partition: LocalPartitionState,
    followers: Mapping[int, FollowerState],
    *,
    broker_id: int,
    leader_end_offset: int,
    now_ms: float,
    max_lag_ms: float,
) -> IsrProposal | None:
    """The ISR without the followers that lag, or None if none does; `maybeShrinkIsr` (IS-2)."""
    if partition.proposal is not None or not partition.is_leader:
        return None

    def lags(member: int) -> bool:
        known = followers.get(member)
        if known is None:
            # It was in the ISR when the leader epoch began, so it counts as caught up then.
            return now_ms - partition.leader_since_ms > max_lag_ms
        return not is_caught_up(known, leader_end_offset, now_ms, max_lag_ms)

    out_of_sync = tuple(member for member in partition.isr if member != broker_id and lags(member))
    if not out_of_sync:
        return None
    return IsrProposal(
        isr=tuple(member for member in partition.isr if member not in out_of_sync),
        joining=(),
        leaving=out_of_sync,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
    )


def may_repeat(
    proposal: IsrProposal,
    followers: Mapping[int, FollowerState],
    *,
    high_watermark: int,
    leader_epoch_start_offset: int,
    is_alive: Callable[[int], bool],
) -> bool:
    """Whether a pending proposal that has been answered may be sent again, unchanged.

    Unchanged, because an earlier controller may have written it: the maximal ISR must still hold both outcomes. A
    joining follower may have lost its log meanwhile, and must not be put into the ISR then; but one that is dead is
    proposed, so that the controller refuses it with INELIGIBLE_REPLICA.
    """
    return all(
        not is_alive(member)
        or (member in followers and _is_in_sync(followers[member], high_watermark, leader_epoch_start_offset))
        for member in proposal.joining
    )


def _is_in_sync(known: FollowerState, high_watermark: int, leader_epoch_start_offset: int) -> bool:
    return known.log_end_offset >= high_watermark and known.log_end_offset >= leader_epoch_start_offset


def with_proposal(partition: LocalPartitionState, proposal: IsrProposal | None) -> LocalPartitionState:
    """The state with `proposal` pending, or with None pending."""
    return msgspec.structs.replace(partition, proposal=proposal)


def accepted(
    partition: LocalPartitionState,
    proposal: IsrProposal,
    *,
    leader_epoch: int,
    partition_epoch: int,
    isr: tuple[int, ...],
) -> LocalPartitionState | None:
    """The state with the ISR that the controller has written, or None if the answer is not about the present state;
    `handleAlterPartitionUpdate` (IS-6).
    """
    if (
        partition.proposal != proposal
        or leader_epoch != partition.leader_epoch
        or partition_epoch < partition.partition_epoch
    ):
        return None
    return msgspec.structs.replace(partition, isr=isr, partition_epoch=partition_epoch, proposal=None)


def on_refusal(error: Errors) -> OnRefusal:
    """What to do with a proposal that was refused with `error`; `handleAlterPartitionError` (IS-6)."""
    if error in _REVERT:
        return OnRefusal.REVERT
    if error in _AWAIT_METADATA:
        return OnRefusal.AWAIT_METADATA
    return OnRefusal.RETRY
