"""Decides where a follower's log is truncated, by leader epochs (KIP-101, KIP-279).

A plain function. Mirrors `getOffsetTruncationState` of `AbstractFetcherThread`.
"""

from __future__ import annotations

from typing import NamedTuple

from understudy.brokers.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET, LeaderEpochCache


class Truncation(NamedTuple):
    """Where a log is truncated.

    Attributes:
        is_complete: whether the log agrees with the leader's then; otherwise an earlier epoch has to be compared.
    """

    offset: int
    is_complete: bool


def truncation_offset(
    epochs: LeaderEpochCache,
    *,
    leader_epoch: int,
    leader_end_offset: int,
    log_end_offset: int,
    high_watermark: int,
) -> Truncation:
    """Return where to truncate a log whose last epoch ends elsewhere in the leader's.

    Args:
        epochs: the leader epochs of the follower's log.
        leader_epoch: the largest epoch of the leader's log up to the follower's last one, -1 without any.
        leader_end_offset: where that epoch ends in the leader's log, -1 if it has no epochs.
    """
    if leader_end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(high_watermark, log_end_offset), is_complete=True)
    if leader_epoch == UNDEFINED_EPOCH:
        return Truncation(min(leader_end_offset, log_end_offset), is_complete=True)
    own = epochs.end_offset_for(leader_epoch, log_end_offset)
    if own.end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(leader_end_offset, log_end_offset), is_complete=True)
    if own.epoch != leader_epoch:
        # The follower lacks the leader's epoch: what it has of later ones goes, then the one before is compared.
        return Truncation(min(own.end_offset, log_end_offset), is_complete=False)
    return Truncation(min(own.end_offset, leader_end_offset, log_end_offset), is_complete=True)
